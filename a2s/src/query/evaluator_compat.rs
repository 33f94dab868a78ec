//! Fitting a query to its evaluator: `jsonpath-rust` parses all of RFC 9535 and evaluates a little
//! less. What can be said in another way is, and what cannot is refused. `docs/jsonpath.md` lists
//! what there is.

use jsonpath_rust::parser::model::{
    Comparable, Comparison, Filter, FilterAtom, FnArg, JpQuery, Literal, Segment, Selector, Test,
    TestFunction,
};

use super::query_cost::parts;

/// Rewrites a query so that it returns the values that RFC 9535 requires.
///
/// # Errors
/// Returns a description of the part that cannot be evaluated.
pub(super) fn adapt_query(query: &mut JpQuery) -> Result<(), String> {
    query.segments.iter_mut().try_for_each(adapt_segment)
}

/// Returns true when `jsonpath-rust` would give the values in another order: it applies one selector after
/// the other, each to all values; RFC 9535 takes one value after the other.
pub(super) fn orders_by_selector(query: &JpQuery) -> bool {
    let mut several = false;
    query.segments.iter().any(|segment| {
        let (descends, selectors) = parts(segment);
        let apart = selectors.len() > 1 && (several || descends);
        several |= descends || !matches!(selectors, [Selector::Name(_) | Selector::Index(_)]);
        apart
    })
}

/// Returns true when a query has a filter. Nested filters are always inside a top-level one.
pub(super) fn has_filter(query: &JpQuery) -> bool {
    query.segments.iter().any(segment_filters)
}

fn segment_filters(segment: &Segment) -> bool {
    parts(segment).1.iter().any(|selector| matches!(selector, Selector::Filter(_)))
}

fn adapt_segment(segment: &mut Segment) -> Result<(), String> {
    let selectors = match segment {
        Segment::Descendant(inner) => return adapt_segment(inner),
        Segment::Selector(selector) => std::slice::from_mut(selector),
        Segment::Selectors(selectors) => selectors,
    };
    selectors.iter_mut().try_for_each(|selector| match selector {
        Selector::Filter(filter) => adapt_filter(filter),
        Selector::Name(_) | Selector::Wildcard | Selector::Index(_) | Selector::Slice(..) => Ok(()),
    })
}

fn adapt_filter(filter: &mut Filter) -> Result<(), String> {
    match filter {
        Filter::Or(parts) | Filter::And(parts) => parts.iter_mut().try_for_each(adapt_filter),
        Filter::Atom(FilterAtom::Filter { expr, .. }) => adapt_filter(expr),
        Filter::Atom(FilterAtom::Test { expr, .. }) => adapt_test(expr),
        Filter::Atom(FilterAtom::Comparison(comparison)) => {
            for side in sides(comparison) {
                if let Comparable::Function(function) = side {
                    adapt_function(function)?;
                }
            }
            if sides(comparison).into_iter().any(|side| counted(side).is_some()) {
                *filter = with_empty_counts(comparison);
            }
            Ok(())
        }
    }
}

fn adapt_test(test: &mut Test) -> Result<(), String> {
    match test {
        Test::RelQuery(segments) => {
            if segments.first().is_some_and(segment_filters) {
                return Err("a filter directly after `@` is not supported; \
                     filter by a member, as in `@.tags[?@ == 'x']`"
                    .to_owned());
            }
            segments.iter_mut().try_for_each(adapt_segment)
        }
        Test::AbsQuery(query) => adapt_query(query),
        Test::Function(function) => adapt_function(function),
    }
}

fn adapt_function(function: &mut TestFunction) -> Result<(), String> {
    let fit_argument = |argument: &mut FnArg| match argument {
        FnArg::Literal(_) => Ok(()),
        FnArg::Test(test) => adapt_test(test),
        FnArg::Filter(filter) => adapt_filter(filter),
    };
    match function {
        TestFunction::Custom(_, all) => all.iter_mut().try_for_each(fit_argument),
        TestFunction::Length(only) => fit_argument(only),
        TestFunction::Value(only) | TestFunction::Count(only) => fit_argument(only),
        TestFunction::Search(text, pattern) | TestFunction::Match(text, pattern) => {
            fit_argument(text)?;
            fit_argument(pattern)
        }
    }
}

fn sides(comparison: &mut Comparison) -> [&mut Comparable; 2] {
    match comparison {
        Comparison::Eq(left, right)
        | Comparison::Ne(left, right)
        | Comparison::Gt(left, right)
        | Comparison::Gte(left, right)
        | Comparison::Lt(left, right)
        | Comparison::Lte(left, right) => [left, right],
    }
}

/// The query whose values `count` counts.
fn counted(side: &Comparable) -> Option<&Test> {
    match side {
        Comparable::Function(TestFunction::Count(FnArg::Test(query))) => Some(query),
        _ => None,
    }
}

/// Rewrites `count(@.x) < 2` as `@.x && count(@.x) < 2 || !@.x && 0 < 2`. The `count` of nothing is 0 in
/// RFC 9535, but it is not a number in `jsonpath-rust`.
fn with_empty_counts(comparison: &Comparison) -> Filter {
    let mut cases = vec![(Vec::new(), comparison.clone())];
    for side in [0, 1] {
        cases = cases
            .into_iter()
            .flat_map(|(conditions, mut comparison)| {
                let query = counted(sides(&mut comparison)[side]).cloned();
                let Some(query) = query else { return vec![(conditions, comparison)] };
                let when = |not| {
                    let test = FilterAtom::Test { expr: Box::new(query.clone()), not };
                    [conditions.clone(), vec![Filter::Atom(test)]].concat()
                };
                let mut empty = comparison.clone();
                *sides(&mut empty)[side] = Comparable::Literal(Literal::Int(0));
                vec![(when(false), comparison), (when(true), empty)]
            })
            .collect();
    }
    let case = |(mut conditions, comparison): (Vec<Filter>, Comparison)| {
        conditions.push(Filter::Atom(FilterAtom::Comparison(Box::new(comparison))));
        Filter::And(conditions)
    };
    Filter::Or(cases.into_iter().map(case).collect())
}
