//! `a2s run` on a terminal: what a person sees when it is over, whatever happened on the way.
//!
//! `script` (util-linux) gives the command a terminal; what it writes goes into a terminal in
//! memory, whose screen is looked at.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::crash::{Slow, document};
use crate::harness::{World, command};
use crate::http;

/// The command on a terminal of so many columns and rows.
struct Terminal {
    script: Child,
    columns: u16,
    rows: u16,
    /// What it has written so far.
    written: Vec<u8>,
}

impl Terminal {
    /// Runs `a2s` with `arguments`, which need no quotes.
    fn run(world: &World, (columns, rows): (u16, u16), term: &str, arguments: &str) -> Self {
        let a2s = env!("CARGO_BIN_EXE_a2s");
        // Whoever runs the tests in the background may ignore Ctrl-C, and that is inherited.
        let line = format!(
            "stty cols {columns} rows {rows}; exec env --default-signal=INT {a2s} {arguments}"
        );
        let data = world.data();
        let environment = [
            ("A2S_URL", world.url()),
            ("A2S_DATA_DIR", data.to_str().unwrap()),
            ("PATH", "/usr/bin:/bin"),
            ("SHELL", "/bin/sh"),
            ("TERM", term),
        ];
        let environment_of = command(&environment);
        let script = Command::new("script")
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .env_clear()
            .envs(environment_of.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self { script, columns, rows, written: Vec::new() }
    }

    /// Waits until this was written.
    fn wait_for(&mut self, text: &str) {
        let stdout = self.script.stdout.as_mut().unwrap();
        let mut buffer = [0; 4_096];
        while !String::from_utf8_lossy(&self.written).contains(text) {
            let read = stdout.read(&mut buffer).unwrap();
            assert_ne!(read, 0, "it ended without {text}");
            self.written.extend_from_slice(&buffer[..read]);
        }
    }

    /// Presses Ctrl-C.
    fn interrupt(&mut self) {
        self.script.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    }

    /// The exit code, all that was written, and what is on the screen in the end.
    fn end(mut self) -> (i32, String, Vec<String>) {
        let mut written = std::mem::take(&mut self.written);
        self.script.stdout.take().unwrap().read_to_end(&mut written).unwrap();
        let code = self.script.wait().unwrap().code().unwrap_or(-1);
        let mut terminal =
            vt100::Parser::new(self.rows.try_into().unwrap(), self.columns.try_into().unwrap(), 0);
        terminal.process(&written);
        let screen = terminal.screen();
        let lines = screen.rows(0, self.columns).map(|row| row.trim_end().to_owned());
        let mut lines: Vec<_> = lines.collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        (code, String::from_utf8_lossy(&written).into_owned(), lines)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

/// Times and ids by what they are, and how things are laid out.
fn plain(lines: &[String]) -> Vec<String> {
    let rules = [
        (r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID"),
        (r"\d+ ms|\d+\.\d s", "TIME"),
        ("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "*"),
    ];
    let rules = rules.map(|(pattern, with)| (regex::Regex::new(pattern).unwrap(), with));
    let plain = |line: &String| {
        rules
            .iter()
            .fold(line.clone(), |line, (rule, with)| rule.replace_all(&line, *with).into_owned())
    };
    lines.iter().map(plain).collect()
}

/// A world in which the document with the slow step is published.
fn world(slow: &Slow) -> World {
    let upstream = format!("slow.example={}", slow.url);
    let world = World::up(&["--upstream", &upstream]);
    let path = world.write("slow.json", &document("get"));
    world.a2s(&["publish", &path]).exits(0);
    world
}

#[test]
fn a_tree_grows_on_a_terminal_and_stays_above_the_result() {
    let slow = Slow::start();
    let world = world(&slow);
    let each = json!({
        "a2s": "1.1.0", "name": "Each", "description": "Asks again and again",
        "domains": ["slow.example"], "version": "1.0.0", "authors": [{"name": "Test"}],
        "execution": {"type": "sequence", "steps": [
            {
                "id": "all", "for_each": "${list}", "format": "OpenAPI",
                "task": {
                    "openapi": "3.0.3", "info": {"title": "Slow", "version": "1"},
                    "servers": [{"url": "https://slow.example"}],
                    "paths": {"/quick": {"get": {"responses": {"200": {"description": "Done"}}}}},
                },
                "output_mapping": {"values": "$.value"},
            },
        ]},
        "output": {"done": true},
    });
    let mut document = each;
    document["checksum"] = json!(a2s::compile(document.to_string().as_bytes()).digest.unwrap());
    let path = world.write("each.json", &document.to_string());
    world.a2s(&["publish", &path]).exits(0);
    let list: Vec<u32> = (0..40).collect();
    let inputs = world.write("inputs.json", &json!({"list": list}).to_string());

    let line = format!("run Each --inputs {inputs}");
    let (code, written, screen) = Terminal::run(&world, (70, 24), "xterm-256color", &line).end();
    assert_eq!(code, 0, "{written}");
    assert_eq!(
        plain(&screen),
        [
            "run Each 1.0.0  ID",
            "  ✓ all  task  40/40  TIME",
            "succeeded in TIME  ID",
            "  {",
            "    \"done\": true",
            "  }",
        ]
    );
    // A terminal that cannot move its cursor, and one that is none, get lines.
    let (code, written, _) = Terminal::run(&world, (70, 24), "dumb", &line).end();
    assert_eq!(code, 0);
    assert!(!written.contains("\u{1b}[J") && written.contains("all[39]"), "{written}");
    let piped = world.a2s(&["run", "Each", "--inputs", &inputs]).exits(0);
    assert!(piped.stdout.contains("all[39] task") && !piped.stdout.contains('\u{1b}'));
    // Without colours the cursor moves all the same.
    let line = format!("run Each --color never --inputs {inputs}");
    let (_, written, screen) = Terminal::run(&world, (70, 24), "xterm", &line).end();
    assert!(!written.contains('m') || !written.contains("\u{1b}[0m"), "{written:?}");
    assert_eq!(plain(&screen)[1], "  ✓ all  task  40/40  TIME");
}

#[test]
fn cancelled_run_leaves_a_clean_narrow_terminal() {
    let mut slow = Slow::start();
    let world = world(&slow);
    let terminal = Terminal::run(&world, (24, 40), "xterm", "run Slow");
    slow.wait_for("GET /slow");
    let runs = world.a2s(&["runs", "--json"]).exits(0).one();
    let id = runs["executions"][0]["id"].as_str().unwrap().to_owned();
    world.a2s(&["cancel", &id]).exits(0);
    let (code, written, screen) = terminal.end();
    assert_eq!(code, 1, "{written}");
    let screen = plain(&screen);
    // Lines of the tree are cut, never broken; each step is there once.
    let is_step = |line: &&String| line.starts_with("  ✓") || line.starts_with("  ✗");
    let tree: Vec<_> = screen.iter().filter(is_step).collect();
    assert!(tree[0].starts_with("  ✓ first  task"), "{screen:#?}");
    assert!(tree[1].starts_with("  ✗ second  task"), "{screen:#?}");
    assert!(tree[1].ends_with('…'), "{screen:#?}");
    for step in ["first", "second"] {
        assert_eq!(screen.iter().filter(|line| line.contains(step)).count(), 1, "{screen:#?}");
    }
    assert!(screen.iter().any(|line| line.starts_with("cancelled")), "{screen:#?}");
    assert!(!screen.concat().contains('*'), "a spinner is left: {screen:#?}");
}

#[test]
fn ctrl_c_ends_the_view_and_leaves_a_whole_picture() {
    let mut slow = Slow::start();
    let world = world(&slow);
    let mut terminal = Terminal::run(&world, (60, 10), "xterm", "run Slow");
    slow.wait_for("GET /slow");
    // The picture is drawn when the stream has told of the request, not before.
    terminal.wait_for("/slow");
    terminal.interrupt();
    let (code, written, screen) = terminal.end();
    assert_eq!(code, 130, "{written}");
    let screen = plain(&screen);
    assert!(screen[0].starts_with("run Slow 1.0.0"), "{screen:#?}");
    assert!(screen[1].starts_with("  ✓ first  task"), "{screen:#?}");
    assert!(screen[2].starts_with("  * second  task"), "{screen:#?}");
    assert!(screen.len() <= 4, "{screen:#?}");
    // The run continues without its watcher.
    let runs: Value = world.a2s(&["runs", "--json"]).exits(0).one();
    assert_eq!(runs["executions"][0]["status"], "running");
}

#[test]
fn a_run_that_goes_on_is_shown_whole() {
    let mut slow = Slow::start();
    let upstream = format!("slow.example={}", slow.url);
    let mut world = World::up(&["--upstream", &upstream]);
    let path = world.write("slow.json", &document("post"));
    world.a2s(&["publish", &path]).exits(0);
    let terminal = Terminal::run(&world, (60, 20), "xterm", "run Slow");
    slow.wait_for("POST /slow");
    drop(terminal);
    world.kill();
    world.start();
    let runs: Value = world.a2s(&["runs", "--json"]).exits(0).one();
    let id = runs["executions"][0]["id"].as_str().unwrap();
    // The stream ends when the run waits.
    let owner = format!("Bearer {}", world.token());
    let url = format!("{}v1/executions/{id}/events", world.url());
    let (_, events) = http::get(&url, &[("authorization", owner.as_str())]);
    assert!(events.contains("run_waiting"), "{events}");
    let line = format!("runs resume {id} --set second=7");
    let (code, written, screen) = Terminal::run(&world, (60, 20), "xterm", &line).end();
    assert_eq!(code, 0, "{written}");
    let screen = plain(&screen);
    let tree: Vec<_> = screen.iter().filter(|line| line.contains('✓')).collect();
    assert_eq!(tree.len(), 3, "{screen:#?}");
    for (line, step) in tree.iter().zip(["first", "second", "third"]) {
        assert!(line.starts_with(&format!("  ✓ {step}  task")), "{screen:#?}");
    }
}
