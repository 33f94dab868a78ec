//! Watches a run on a terminal: its tree of steps, drawn again while it grows.

use std::cell::RefCell;
use std::pin::pin;
use std::time::Duration;

use a2s_api::{EventKind, RunEvent};

use super::follow;
use super::tree::RunTree;
use super::view::print_event;
use crate::cli_error::CliError;
use crate::client::ServiceClient;
use crate::clock;
use crate::output::{CommandOutput, LiveRegion, TerminalSize};

/// The interval at which the tree is drawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(80);

/// Draws `tree` as the events of a run after number `seen` come in, until it has ended or waits.
pub(super) async fn watch(
    id: &str,
    seen: &mut u64,
    tree: RunTree,
    client: &ServiceClient,
    output: &mut CommandOutput,
) -> Result<(), CliError> {
    let view = RefCell::new(LiveView { tree, painter: LiveRegion::default(), output });
    let mut following = pin!(follow(id, seen, client, |event| view.borrow_mut().take(event)));
    let mut ticks = tokio::time::interval(DRAW_INTERVAL);
    let followed = loop {
        tokio::select! {
            // A run that is over already is drawn once.
            biased;
            followed = &mut following => break followed,
            _ = ticks.tick() => view.borrow_mut().draw(TerminalSize::now()),
        }
    };
    // All of it stays, however long it is: nothing is written over it any more.
    view.borrow_mut().draw_last();
    followed
}

struct LiveView<'o> {
    tree: RunTree,
    painter: LiveRegion,
    output: &'o mut CommandOutput,
}

impl LiveView<'_> {
    fn take(&mut self, event: &RunEvent) {
        // Events about the whole run are printed above the tree, as without one.
        if matches!(
            event.kind,
            EventKind::RunStarted(_) | EventKind::RunQueued {} | EventKind::RunResumed {}
        ) {
            self.painter.erase(TerminalSize::now(), self.output);
            print_event(event, self.output);
        }
        self.tree.apply(event);
    }

    fn draw(&mut self, size: TerminalSize) {
        let lines = self.tree.lines(size.width, size.height, clock::now());
        self.painter.paint(&lines, size, self.output);
    }

    fn draw_last(&mut self) {
        let size = TerminalSize::now();
        let lines = self.tree.lines(size.width, usize::MAX, clock::now());
        self.painter.paint(&lines, size, self.output);
    }
}
