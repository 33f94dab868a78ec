//! What became of the calls, for people: every reason once, with its meaning.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::mock::{Control, Objection};

/// The most characters of a cell.
const MAX_CELL: usize = 160;

/// What is known of Prism 5.14.2: words of its objections, and what is behind them.
const LIMITS: [(&str, &str); 3] = [
    (
        "Request body must be object",
        "Prism parses JSON and forms; what is sent as other text or as bytes is a string to it, and \
         the schema asks for an object",
    ),
    (
        "Request body must be array",
        "Prism parses JSON and forms; what is sent as other text or as bytes is a string to it, and \
         the schema asks for a list",
    ),
    (
        "must be object",
        "Prism reads the fields of forms as text; the field is an object in JSON (Prism's #1622)",
    ),
];

/// Why it took a request and gave no answer.
const UNANSWERED: [(&str, &str); 5] = [
    ("VIOLATIONS", "Its own answer, of an example or made up, does not fit the description"),
    ("NO_COMPLEX_OBJECT_TEXT", "It writes objects as JSON only, and the answer is something else"),
    ("SCHEMA_TOO_COMPLEX", "It finds the schema of the answer too complex to make one up"),
    ("UNKNOWN", "It fails on its own while it makes up the answer"),
    ("NOT_FOUND", "The description has no answer that it would give"),
];

/// Reasons, with how often and the first case.
#[derive(Default)]
pub(super) struct Reasons(BTreeMap<String, (usize, String)>);

impl Reasons {
    pub(super) fn add(&mut self, reason: impl Into<String>, case: &str) {
        self.0.entry(reason.into()).or_insert_with(|| (0, case.to_owned())).0 += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn table(&self, title: &str, markdown: &mut String) {
        if self.is_empty() {
            return;
        }
        let mut rows: Vec<_> = self.0.iter().collect();
        rows.sort_by_key(|(reason, (count, _))| (Reverse(*count), *reason));
        let _ = writeln!(markdown, "\n| {title} | times | for example |\n|---|---:|---|");
        for (reason, (count, case)) in rows {
            let _ = writeln!(markdown, "| {} | {count} | {} |", cell(reason), cell(case));
        }
    }
}

/// Text on one line of a table.
fn cell(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = match words.char_indices().nth(MAX_CELL) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    };
    text.replace('|', "\\|")
}

#[derive(Default)]
pub(super) struct Tally {
    pub(super) descriptions: usize,
    /// Mocks: a description takes several when it has paths that are one to the mock.
    pub(super) parts: usize,
    pub(super) operations: usize,
    pub(super) calls: usize,
    pub(super) taken: usize,
    /// Runs that ended as they should, and those in which an answer was remarked on.
    pub(super) succeeded: usize,
    pub(super) warned: usize,
    /// The descriptions with calls that were not taken.
    pub(super) failing: BTreeSet<String>,
    pub(super) control: Control,
    not_taken: Reasons,
    unanswered: Reasons,
    not_called: Reasons,
}

impl Tally {
    pub(super) fn refused(&mut self, objection: &Objection, case: &str) {
        let Objection { kind, told } = objection;
        let known = LIMITS.iter().find(|(words, _)| told.contains(words));
        let reason = known.map_or_else(|| format!("{kind} {told}"), |(_, why)| (*why).to_owned());
        self.not_taken.add(reason, case);
    }

    pub(super) fn fell(&mut self, case: &str) {
        self.not_taken.add("the mock fell over", case);
    }

    /// A call that the executor did not make.
    pub(super) fn not_sent(&mut self, why: &str, case: &str) {
        self.not_taken.add(format!("not sent: {why}"), case);
    }

    pub(super) fn unanswered(&mut self, objection: &Objection, case: &str) {
        let Objection { kind, told } = objection;
        let known = UNANSWERED.iter().find(|(known, _)| known == kind);
        let reason = known.map_or(kind.as_str(), |(_, why)| why);
        self.unanswered.add(reason, &format!("{case}: {told}"));
    }

    /// A description without a mock.
    pub(super) fn no_mock(&mut self, said: &str, name: &str) {
        let file = said.split_once("Error opening file \"").and_then(|(_, rest)| {
            let (path, _) = rest.split_once('"')?;
            path.rsplit('/').next()
        });
        let reason = match file {
            Some(file) => {
                format!("no mock: it needs `{file}`, which is not in the data set")
            }
            None => format!("no mock: {said}"),
        };
        self.not_called.add(reason, name);
    }

    /// An operation without a document.
    pub(super) fn no_document(&mut self, why: &str, name: &str) {
        self.not_called.add(format!("no document: {why}"), name);
    }

    pub(super) fn lost_nothing(&self) -> bool {
        self.not_called.is_empty()
    }

    pub(super) fn figures(&self) -> String {
        let share = 100.0 * self.taken as f64 / self.calls.max(1) as f64;
        let mut markdown = format!(
            "{} descriptions, {} operations, {} calls; the mock took {} of them ({share:.2} %). {} \
             runs succeeded; in {} of all runs the mock's answer was not as its description \
             declares it.\n",
            self.descriptions, self.operations, self.calls, self.taken, self.succeeded, self.warned,
        );
        let Control { sent, refused } = self.control;
        let _ = writeln!(
            markdown,
            "\nThe control: {sent} bodies in JSON that it took were sent again as the number 0; it \
             refused {refused} of them.",
        );
        self.not_taken.table("Why a call was not taken", &mut markdown);
        self.unanswered.table("Why a call that was taken got no answer", &mut markdown);
        self.not_called.table("What was not called", &mut markdown);
        markdown
    }
}
