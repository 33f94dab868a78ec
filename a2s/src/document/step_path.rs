//! Ways to steps, as runs write them: `checkWeather/getWeather[2]`.

use std::fmt;
use std::str::FromStr;

use super::Step;
use crate::name::{InvalidName, StepId};

/// The maximum number of segments of a path: as many as the limits of capability chains and nested blocks
/// allow.
const MAX_PIECES: usize = 200;

/// A path to a step: ids, each after the id of an enclosing step. The events of a run contain full paths,
/// with every block; a document may leave out blocks, because ids are unique in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepPath(Vec<StepPathSegment>);

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepPathSegment {
    /// Its id.
    pub id: StepId,
    /// One iteration of its `for_each`, counted from 0; `None` means all iterations.
    pub iteration: Option<usize>,
}

impl StepPath {
    /// Parses a path.
    ///
    /// # Errors
    /// When a piece of it is not an id, or the text after an id is not a number in brackets.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        if text.split('/').count() > MAX_PIECES {
            let reason = format!("a path to a step has at most {MAX_PIECES} parts");
            return Err(InvalidName(reason));
        }
        text.split('/').map(read_piece).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the segments, outermost first. There is at least one.
    #[must_use]
    pub fn segments(&self) -> &[StepPathSegment] {
        &self.0
    }
}

fn read_piece(text: &str) -> Result<StepPathSegment, InvalidName> {
    let Some((id, rest)) = text.split_once('[') else {
        return Ok(StepPathSegment { id: StepId::new(text)?, iteration: None });
    };
    let digits = rest.strip_suffix(']').filter(|digits| {
        digits.bytes().all(|b| b.is_ascii_digit()) && (*digits == "0" || !digits.starts_with('0'))
    });
    let iteration = digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| {
        InvalidName("an iteration is written as a number in brackets: `step[0]`".to_owned())
    })?;
    Ok(StepPathSegment { id: StepId::new(id)?, iteration: Some(iteration) })
}

impl fmt::Display for StepPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, StepPathSegment { id, iteration }) in self.0.iter().enumerate() {
            let slash = if index == 0 { "" } else { "/" };
            write!(f, "{slash}{id}")?;
            if let Some(iteration) = iteration {
                write!(f, "[{iteration}]")?;
            }
        }
        Ok(())
    }
}

impl From<StepId> for StepPath {
    fn from(id: StepId) -> Self {
        Self(vec![StepPathSegment { id, iteration: None }])
    }
}

impl FromStr for StepPath {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::new(text)
    }
}

impl Step {
    /// Returns the path from one of `steps` down to the step with this `id`, both included; `None` when
    /// there is no such step. The search does not enter other capabilities.
    #[must_use]
    pub fn path_to<'s>(steps: &[&'s Self], id: &StepId) -> Option<Vec<&'s Self>> {
        steps.iter().find_map(|step| {
            if step.id == *id {
                return Some(vec![*step]);
            }
            let mut way = Self::path_to(&step.children(), id)?;
            way.insert(0, step);
            Some(way)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_read_as_runs_write_them() {
        for text in ["a", "a[0]", "checkWeather/getWeather[12]", "a[1]/b/c[2]"] {
            assert_eq!(StepPath::new(text).unwrap().to_string(), text);
        }
        let one = StepPath::new("a/b[3]").unwrap();
        assert_eq!(one.segments()[0].iteration, None);
        assert_eq!(one.segments()[1].iteration, Some(3));
    }

    #[test]
    fn what_is_no_way_is_refused() {
        let long = "a/".repeat(MAX_PIECES) + "a";
        let vast = "a[99999999999999999999999]";
        for text in ["", "/", "a/", "/a", "a[]", "a[x]", "a[-1]", "a[01]", "a[+1]", "a[1", "a[1]b"]
            .into_iter()
            .chain([long.as_str(), vast])
        {
            assert!(StepPath::new(text).is_err(), "{text}");
        }
    }
}
