//! A walk through the parts of an expression.

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};

use crate::{CelProgram, on_large_stack};

/// The loops around a part of an expression.
#[derive(Debug, Default)]
pub struct LoopScope<'e> {
    /// The variables of the loops.
    locals: Vec<&'e str>,
    /// The number of loops that evaluate the part for each of their items.
    bodies: usize,
    /// The number of loops that go through the value of the part.
    ranges: usize,
}

impl LoopScope<'_> {
    /// Returns true for a variable of a loop.
    #[must_use]
    pub fn binds(&self, name: &str) -> bool {
        self.locals.contains(&name)
    }

    /// Returns true when a loop evaluates the part for each of its items.
    #[must_use]
    pub const fn is_repeated(&self) -> bool {
        0 < self.bodies
    }

    /// Returns true when a loop goes through the value of the part, or of an expression around it.
    #[must_use]
    pub const fn is_range(&self) -> bool {
        0 < self.ranges
    }
}

impl CelProgram {
    /// Shows `visit` every part of the expression in the order of the text, each before its own
    /// parts. Only the range of a loop comes before the loop.
    ///
    /// # Errors
    /// The first of `visit`.
    pub fn walk<'e, E>(
        &'e self,
        mut visit: impl FnMut(&'e IdedExpr, &LoopScope<'e>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut scope = LoopScope::default();
        on_large_stack(|| walk_part(self.0.expression(), &mut scope, &mut visit))
    }
}

fn walk_part<'e, E>(
    part: &'e IdedExpr,
    scope: &mut LoopScope<'e>,
    visit: &mut impl FnMut(&'e IdedExpr, &LoopScope<'e>) -> Result<(), E>,
) -> Result<(), E> {
    if let Expr::Comprehension(inner) = &part.expr {
        scope.ranges += 1;
        walk_part(&inner.iter_range, scope, visit)?;
        walk_part(&inner.accu_init, scope, visit)?;
        scope.ranges -= 1;
        visit(part, scope)?;
        let outer = scope.locals.len();
        scope.locals.extend([inner.iter_var.as_str(), &inner.accu_var]);
        scope.locals.extend(inner.iter_var2.as_deref());
        scope.bodies += 1;
        for part in [&inner.loop_cond, &inner.loop_step, &inner.result] {
            walk_part(part, scope, visit)?;
        }
        scope.bodies -= 1;
        scope.locals.truncate(outer);
        return Ok(());
    }
    visit(part, scope)?;
    let mut walk = |part| walk_part(part, scope, visit);
    match &part.expr {
        Expr::Select(select) => walk(&select.operand),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).try_for_each(walk),
        Expr::List(list) => list.elements.iter().try_for_each(walk),
        Expr::Map(map) => walk_entries(map.entries.iter().map(|entry| &entry.expr), walk),
        Expr::Struct(message) => {
            walk_entries(message.entries.iter().map(|entry| &entry.expr), walk)
        }
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Comprehension(_) => Ok(()),
    }
}

fn walk_entries<'e, E>(
    mut entries: impl Iterator<Item = &'e EntryExpr>,
    mut walk: impl FnMut(&'e IdedExpr) -> Result<(), E>,
) -> Result<(), E> {
    entries.try_for_each(|entry| match entry {
        EntryExpr::MapEntry(entry) => walk(&entry.key).and_then(|()| walk(&entry.value)),
        EntryExpr::StructField(field) => walk(&field.value),
    })
}

/// Returns the text of a literal string.
#[must_use]
pub fn literal_text(part: &IdedExpr) -> Option<&str> {
    match &part.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}
