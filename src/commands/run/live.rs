//! Watching a run on a terminal: its tree of steps, drawn anew while it grows.

use std::cell::RefCell;
use std::pin::pin;
use std::time::Duration;

use a2s::api::{Event, EventKind};

use super::follow;
use super::tree::Tree;
use super::view::print_event;
use crate::cli_error::Failure;
use crate::client::Client;
use crate::clock;
use crate::output::{Output, Painter, Size};

/// How often the tree is drawn.
const INTERVAL: Duration = Duration::from_millis(80);

/// Draws `tree` as the events of a run behind number `seen` come in, until it has ended or waits.
pub(super) async fn watch(
    id: &str,
    seen: &mut u64,
    tree: Tree,
    client: &Client,
    output: &mut Output,
) -> Result<(), Failure> {
    let view = RefCell::new(View { tree, painter: Painter::default(), output });
    let mut following = pin!(follow(id, seen, client, |event| view.borrow_mut().take(event)));
    let mut ticks = tokio::time::interval(INTERVAL);
    let followed = loop {
        tokio::select! {
            // A run that is over already is drawn once.
            biased;
            followed = &mut following => break followed,
            _ = ticks.tick() => view.borrow_mut().draw(Size::now()),
        }
    };
    // All of it stays, however long it is: nothing is written over it any more.
    view.borrow_mut().draw_last();
    followed
}

struct View<'o> {
    tree: Tree,
    painter: Painter,
    output: &'o mut Output,
}

impl View<'_> {
    fn take(&mut self, event: &Event) {
        // What is about the run as a whole stands above the tree, as it does without one.
        if matches!(
            event.kind,
            EventKind::RunStarted(_) | EventKind::RunQueued {} | EventKind::RunResumed {}
        ) {
            self.painter.erase(Size::now(), self.output);
            print_event(event, self.output);
        }
        self.tree.apply(event);
    }

    fn draw(&mut self, size: Size) {
        let lines = self.tree.lines(size.width, size.height, clock::now());
        self.painter.paint(&lines, size, self.output);
    }

    fn draw_last(&mut self) {
        let size = Size::now();
        let lines = self.tree.lines(size.width, usize::MAX, clock::now());
        self.painter.paint(&lines, size, self.output);
    }
}
