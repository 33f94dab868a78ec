//! Paths of steps, as events write them: `checkAll/check[3]/getWeather`.

/// The path of the step that `path` is an iteration of, when it is one: `step` for `step[3]`.
#[must_use]
pub fn loop_of(path: &str) -> Option<&str> {
    path.strip_suffix(']')?.rsplit_once('[').map(|(looping, _)| looping)
}

/// The path next around `path`: of the step that it is an iteration of, or else of the one that it
/// stands in. None for a step that stands in none.
#[must_use]
pub fn around(path: &str) -> Option<&str> {
    loop_of(path).or_else(|| path.rsplit_once('/').map(|(around, _)| around))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_outwards_one_step_or_iteration_at_a_time() {
        let outwards = std::iter::successors(Some("a/b[2]/c[0]"), |path| around(path));
        assert_eq!(outwards.collect::<Vec<_>>(), ["a/b[2]/c[0]", "a/b[2]/c", "a/b[2]", "a/b", "a"]);
        assert_eq!(loop_of("a/b[2]/c"), None);
    }
}
