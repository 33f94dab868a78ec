//! Paths of steps, as events write them: `checkAll/check[3]/getWeather`.

/// Returns the path of the step that `path` is an iteration of: `step` for `step[3]`. `None` when `path` is
/// not an iteration.
#[must_use]
pub fn path_of_loop(path: &str) -> Option<&str> {
    path.strip_suffix(']')?.rsplit_once('[').map(|(looping, _)| looping)
}

/// Returns the path one level above `path`: the step that it is an iteration of, or else the step that
/// contains it. `None` for a step at the top level.
#[must_use]
pub fn parent_path(path: &str) -> Option<&str> {
    path_of_loop(path).or_else(|| path.rsplit_once('/').map(|(parent, _)| parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_outwards_one_step_or_iteration_at_a_time() {
        let outwards = std::iter::successors(Some("a/b[2]/c[0]"), |path| parent_path(path));
        assert_eq!(outwards.collect::<Vec<_>>(), ["a/b[2]/c[0]", "a/b[2]/c", "a/b[2]", "a/b", "a"]);
        assert_eq!(path_of_loop("a/b[2]/c"), None);
    }
}
