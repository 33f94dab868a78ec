//! The parts of the variables that an expression reads.

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use crate::literal_text;

/// A part of a variable that an expression reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPath {
    /// The name of the variable, and the members and items that lead to the part.
    pub segments: Vec<String>,
    /// The extent of the read.
    pub kind: ReadKind,
}

/// The extent of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadKind {
    /// The value with everything in it.
    Value,
    /// Only whether it exists, as in `has(a.b)`.
    Existence,
    /// Only its item or the name of its member with this text, as in `"x" in a`.
    Containment(String),
}

/// Returns the parts of variables that an expression without loops around it reads. A computed index reads
/// the whole value, and so does a loop.
pub(crate) fn reads_of(part: &IdedExpr) -> Vec<ReadPath> {
    let mut reader = Reader::default();
    reader.add(part);
    reader.reads
}

#[derive(Default)]
struct Reader<'e> {
    /// The variables of the loops around the current part.
    locals: Vec<&'e str>,
    reads: Vec<ReadPath>,
}

/// Members and items after the name of a variable, up to the first that is computed.
struct MemberChain {
    segments: Vec<String>,
    is_complete: bool,
}

impl MemberChain {
    fn with(mut self, segment: String) -> Self {
        if self.is_complete {
            self.segments.push(segment);
        }
        self
    }

    fn into_read(self, kind: ReadKind) -> ReadPath {
        let kind = if self.is_complete { kind } else { ReadKind::Value };
        ReadPath { segments: self.segments, kind }
    }
}

impl<'e> Reader<'e> {
    fn add(&mut self, part: &'e IdedExpr) {
        if let Some(chain) = self.follow(part) {
            let is_test = matches!(&part.expr, Expr::Select(select) if select.test);
            let kind = if is_test { ReadKind::Existence } else { ReadKind::Value };
            self.reads.push(chain.into_read(kind));
        }
    }

    /// Returns the chain of a part that selects members of a variable. Adds what any other part reads.
    fn follow(&mut self, part: &'e IdedExpr) -> Option<MemberChain> {
        match &part.expr {
            Expr::Ident(name) if self.locals.contains(&name.as_str()) => None,
            Expr::Ident(name) => {
                Some(MemberChain { segments: vec![name.clone()], is_complete: true })
            }
            Expr::Select(select) => {
                self.follow(&select.operand).map(|chain| chain.with(select.field.clone()))
            }
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
                (operators::INDEX, [operand, index]) => {
                    let chain = self.follow(operand);
                    match literal_segment(index) {
                        Some(segment) => chain.map(|chain| chain.with(segment)),
                        None => {
                            self.add(index);
                            chain.map(|chain| MemberChain { is_complete: false, ..chain })
                        }
                    }
                }
                (operators::IN, [item, container]) => {
                    self.add(item);
                    if let Some(chain) = self.follow(container) {
                        let item = literal_text(item).map(str::to_owned);
                        let kind = item.map_or(ReadKind::Value, ReadKind::Containment);
                        self.reads.push(chain.into_read(kind));
                    }
                    None
                }
                (_, args) => {
                    call.target.as_deref().into_iter().chain(args).for_each(|part| self.add(part));
                    None
                }
            },
            Expr::List(list) => {
                list.elements.iter().for_each(|part| self.add(part));
                None
            }
            Expr::Map(map) => {
                map.entries.iter().for_each(|entry| self.add_entry(&entry.expr));
                None
            }
            Expr::Struct(message) => {
                message.entries.iter().for_each(|entry| self.add_entry(&entry.expr));
                None
            }
            Expr::Comprehension(inner) => {
                self.add(&inner.iter_range);
                self.add(&inner.accu_init);
                let outer = self.locals.len();
                self.locals.extend([inner.iter_var.as_str(), &inner.accu_var]);
                self.locals.extend(inner.iter_var2.as_deref());
                for part in [&inner.loop_cond, &inner.loop_step, &inner.result] {
                    self.add(part);
                }
                self.locals.truncate(outer);
                None
            }
            Expr::Unspecified | Expr::Literal(_) => None,
        }
    }

    fn add_entry(&mut self, entry: &'e EntryExpr) {
        match entry {
            EntryExpr::MapEntry(entry) => {
                self.add(&entry.key);
                self.add(&entry.value);
            }
            EntryExpr::StructField(field) => self.add(&field.value),
        }
    }
}

/// Returns the name of a member or the number of an item that is a literal.
fn literal_segment(index: &IdedExpr) -> Option<String> {
    match &index.expr {
        Expr::Literal(LiteralValue::Int(number)) => Some(number.inner().to_string()),
        Expr::Literal(LiteralValue::UInt(number)) => Some(number.inner().to_string()),
        _ => literal_text(index).map(str::to_owned),
    }
}
