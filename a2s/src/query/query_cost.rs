//! The cost of a query. Neither evaluator counts its steps, and `jsonpath-rust` keeps the path of
//! each value that it visits, so the cost is bounded before they begin.

use crate::evaluation_cost::{UNKNOWN_STATES, pattern_states};
use std::iter::Sum;
use std::ops::Add;

use jsonpath_rust::parser::model::{
    Comparable, Filter, FilterAtom, FnArg, JpQuery, Literal, Segment, Selector, SingularQuery,
    Test, TestFunction,
};
use serde_json::Value;

/// The maximum number of values that a query may visit. A visit takes about half a microsecond.
const MAX_VISITS: f64 = 1e7;
/// The cost of a comparison of two values, in visits.
const COMPARED: f64 = 0.1;
/// The number of bytes of text that are read in the time of one visit.
const TEXT: f64 = 250.0;
/// The maximum size of the paths of the values that a query may select, in bytes.
const MAX_PATHS: f64 = 128e6;
/// The cost of a pattern, which is compiled again for each value. In visits: the base cost of any pattern,
/// the cost of each byte and of each character class, and the maximum, which a pattern from the response
/// may cost.
const PATTERN: f64 = 100.0;
const PATTERN_BYTE: f64 = 8.0;
const PATTERN_CLASS: f64 = 400.0;
const MAX_PATTERN: f64 = 50_000.0;

/// The cost of one state of a pattern for one byte of text, in visits. In the worst case, each state of a
/// pattern is checked for each byte of a text.
const STATE_BYTE: f64 = 0.03;

/// The size of a response.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ResponseSize {
    /// The number of values at each depth, starting with the response itself.
    levels: Vec<f64>,
    /// The total number of values.
    values: f64,
    /// The size of the paths to all values, in bytes.
    paths: f64,
    /// The size of the text in all strings, in bytes.
    text: f64,
}

impl ResponseSize {
    pub(super) fn measure(answer: &Value) -> Self {
        let mut size = Self { levels: Vec::new(), values: 0.0, paths: 0.0, text: 0.0 };
        size.add(answer, 0, 1.0);
        size
    }

    /// A small response: a query that is too costly for it is never useful.
    fn small() -> Self {
        Self { levels: vec![1.0, 10.0, 90.0], values: 101.0, paths: 2_000.0, text: 1_000.0 }
    }

    fn add(&mut self, value: &Value, depth: usize, path: f64) {
        if self.levels.len() <= depth {
            self.levels.push(0.0);
        }
        self.levels[depth] += 1.0;
        self.values += 1.0;
        self.paths += path;
        match value {
            Value::Array(items) => {
                items.iter().for_each(|item| self.add(item, depth + 1, path + 8.0));
            }
            Value::Object(members) => members.iter().for_each(|(name, member)| {
                self.add(member, depth + 1, path + 4.0 + name.len() as f64);
            }),
            Value::String(text) => self.text += text.len() as f64,
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn depth(&self) -> f64 {
        self.levels.len() as f64
    }
}

/// Returns true when a query costs too much for more than a handful of values.
pub(super) fn is_too_costly(query: &JpQuery) -> bool {
    is_too_costly_over(query, &ResponseSize::small())
}

/// Returns true when a query may cost too much for a response of this size.
pub(super) fn is_too_costly_over(query: &JpQuery, answer: &ResponseSize) -> bool {
    let (visits, times) = query_visits(query, answer);
    visits > MAX_VISITS || times * answer.paths > MAX_PATHS
}

/// Returns the maximum number of values that a query visits in a response of this size.
pub(super) fn visits_over(query: &JpQuery, answer: &ResponseSize) -> f64 {
    query_visits(query, answer).0
}

/// Returns the maximum number of values that a query visits in a response, and the maximum number of times
/// that it selects the same value.
fn query_visits(query: &JpQuery, answer: &ResponseSize) -> (f64, f64) {
    let (mut visits, mut steps) = (1.0, SelectionState::default());
    // The depth of the values that it has come to, while that is one.
    let mut depth = Some(0);
    for segment in &query.segments {
        let (descends, selectors) = parts(segment);
        depth = depth.filter(|_| !descends).map(|depth| depth + 1);
        if steps.stays_single(descends, selectors) {
            visits += 1.0;
            continue;
        }
        steps.enter_segment(descends, answer);
        // The values that selectors look at, and those that are inside of them.
        let (seen, inside) = match depth {
            Some(depth) => (answer.levels.get(depth).copied().unwrap_or(0.0), answer.values),
            None => (answer.values, answer.values * answer.depth()),
        };
        for filter in filters(selectors) {
            let each = filter_visits(filter, answer);
            visits += steps.times * (seen * each.fixed + inside * each.inside);
        }
        steps.times *= selectors.len() as f64;
        visits += steps.times * seen;
    }
    (visits, steps.times)
}

/// The known facts about the values that a query has reached.
struct SelectionState {
    /// The most times that the same value may be among them.
    times: f64,
    /// True when there may be several.
    several: bool,
    /// True when they may be inside one another.
    descended: bool,
}

impl Default for SelectionState {
    fn default() -> Self {
        Self { times: 1.0, several: false, descended: false }
    }
}

impl SelectionState {
    /// Returns true when a segment leads from one value to one value.
    fn stays_single(&self, descends: bool, selectors: &[Selector]) -> bool {
        !self.several && !descends && matches!(selectors, [Selector::Name(_) | Selector::Index(_)])
    }

    fn enter_segment(&mut self, descends: bool, answer: &ResponseSize) {
        // A second descent reaches nested values again.
        if descends && self.descended {
            self.times *= answer.depth();
        }
        self.descended |= descends;
        self.several = true;
    }
}

/// The visits for each examined value.
#[derive(Clone, Copy)]
struct VisitCost {
    /// The part of the cost that does not depend on the value.
    fixed: f64,
    /// The cost of each value inside of it.
    inside: f64,
}

impl VisitCost {
    const fn fixed(fixed: f64) -> Self {
        Self { fixed, inside: 0.0 }
    }
}

impl Add for VisitCost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { fixed: self.fixed + other.fixed, inside: self.inside + other.inside }
    }
}

impl Sum for VisitCost {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::fixed(0.0), Add::add)
    }
}

/// The visits of a query that begins at `@`.
fn relative_visits(segments: &[Segment], answer: &ResponseSize) -> VisitCost {
    let (mut visits, mut steps) = (VisitCost::fixed(1.0), SelectionState::default());
    for segment in segments {
        let (descends, selectors) = parts(segment);
        if steps.stays_single(descends, selectors) {
            visits.fixed += 1.0;
            continue;
        }
        steps.enter_segment(descends, answer);
        for filter in filters(selectors) {
            let each = filter_visits(filter, answer);
            visits.inside += steps.times * (each.fixed + answer.depth() * each.inside);
        }
        steps.times *= selectors.len() as f64;
        visits.inside += steps.times;
    }
    visits
}

/// A flag that is true when a segment descends, and the selectors of the segment.
pub(super) fn parts(segment: &Segment) -> (bool, &[Selector]) {
    match segment {
        Segment::Descendant(inner) => (true, parts(inner).1),
        Segment::Selector(selector) => (false, std::slice::from_ref(selector)),
        Segment::Selectors(selectors) => (false, selectors),
    }
}

fn filters(selectors: &[Selector]) -> impl Iterator<Item = &Filter> {
    selectors.iter().filter_map(|selector| match selector {
        Selector::Filter(filter) => Some(filter),
        _ => None,
    })
}

fn filter_visits(filter: &Filter, answer: &ResponseSize) -> VisitCost {
    match filter {
        Filter::Or(parts) | Filter::And(parts) => {
            parts.iter().map(|part| filter_visits(part, answer)).sum()
        }
        Filter::Atom(FilterAtom::Filter { expr, .. }) => filter_visits(expr, answer),
        Filter::Atom(FilterAtom::Test { expr, .. }) => test_visits(expr, answer),
        Filter::Atom(FilterAtom::Comparison(comparison)) => {
            let (left, right) = comparison.vals();
            let whole = if is_elsewhere(left) && is_elsewhere(right) {
                VisitCost::fixed(answer.values * COMPARED)
            } else {
                VisitCost { fixed: 0.0, inside: COMPARED }
            };
            comparable_visits(left, answer) + comparable_visits(right, answer) + whole
        }
    }
}

fn comparable_visits(comparable: &Comparable, answer: &ResponseSize) -> VisitCost {
    match comparable {
        Comparable::Literal(_) => VisitCost::fixed(1.0),
        Comparable::Function(function) => function_visits(function, answer),
        Comparable::SingularQuery(SingularQuery::Current(way) | SingularQuery::Root(way)) => {
            VisitCost::fixed(1.0 + way.len() as f64)
        }
    }
}

/// Returns true when a compared operand may be a large value that is not inside `@`. Two such operands are
/// compared in full for each `@`.
fn is_elsewhere(comparable: &Comparable) -> bool {
    match comparable {
        Comparable::Literal(_) | Comparable::SingularQuery(SingularQuery::Current(_)) => false,
        Comparable::SingularQuery(SingularQuery::Root(_)) => true,
        Comparable::Function(function) => matches!(function, TestFunction::Value(_)),
    }
}

fn test_visits(test: &Test, answer: &ResponseSize) -> VisitCost {
    match test {
        Test::RelQuery(segments) => relative_visits(segments, answer),
        Test::AbsQuery(query) => VisitCost::fixed(query_visits(query, answer).0),
        Test::Function(function) => function_visits(function, answer),
    }
}

fn function_visits(function: &TestFunction, answer: &ResponseSize) -> VisitCost {
    let argument = |argument: &FnArg| match argument {
        FnArg::Literal(_) => VisitCost::fixed(1.0),
        FnArg::Test(test) => test_visits(test, answer) + text_visits(test, answer),
        FnArg::Filter(filter) => filter_visits(filter, answer),
    };
    match function {
        TestFunction::Length(only) => argument(only),
        TestFunction::Value(only) | TestFunction::Count(only) => argument(only),
        TestFunction::Custom(_, all) => all.iter().map(argument).sum(),
        TestFunction::Search(text, pattern) | TestFunction::Match(text, pattern) => {
            let compile = match pattern {
                FnArg::Literal(Literal::String(pattern)) => pattern_visits(Some(pattern)),
                FnArg::Literal(_) => 1.0,
                FnArg::Test(_) | FnArg::Filter(_) => pattern_visits(None),
            };
            let states = match pattern {
                FnArg::Literal(Literal::String(pattern)) => pattern_states(pattern),
                FnArg::Literal(_) => 1.0,
                FnArg::Test(_) | FnArg::Filter(_) => UNKNOWN_STATES,
            };
            argument(text)
                + argument(pattern)
                + VisitCost::fixed(compile)
                + match_visits(text, states, answer)
        }
    }
}

/// The cost of reading the text that an argument may be.
fn text_visits(argument: &Test, answer: &ResponseSize) -> VisitCost {
    let all = answer.text / TEXT;
    match argument {
        Test::AbsQuery(_) => VisitCost::fixed(all),
        Test::RelQuery(_) => VisitCost { fixed: 0.0, inside: all / answer.values },
        Test::Function(_) => VisitCost::fixed(0.0),
    }
}

/// The cost of running a pattern with this many states over the text of an argument.
fn match_visits(text: &FnArg, states: f64, answer: &ResponseSize) -> VisitCost {
    let all = answer.text * states * STATE_BYTE;
    match text {
        FnArg::Test(test) if matches!(**test, Test::RelQuery(_)) => {
            VisitCost { fixed: 0.0, inside: all / answer.values }
        }
        FnArg::Test(_) => VisitCost::fixed(all),
        FnArg::Literal(_) | FnArg::Filter(_) => VisitCost::fixed(0.0),
    }
}

/// The cost of compiling a pattern, which may be unknown. A repetition count repeats the part before it.
pub(crate) fn pattern_visits(pattern: Option<&str>) -> f64 {
    let Some(pattern) = pattern else { return MAX_PATTERN };
    let classes = pattern.matches('\\').count() as f64;
    let once = PATTERN + PATTERN_BYTE * pattern.len() as f64 + PATTERN_CLASS * classes;
    let counts = pattern.split('{').skip(1).filter_map(|after| {
        let (counts, _) = after.split_once('}')?;
        counts.split(',').filter_map(|count| count.parse::<f64>().ok()).reduce(f64::max)
    });
    counts.fold(once, |visits, count| visits * count.max(1.0)).min(MAX_PATTERN)
}
