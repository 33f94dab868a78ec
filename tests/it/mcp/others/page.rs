//! The programs and configurations of `docs/agents.md`, cut out of the page and run.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::command_of;
use crate::harness::{Bridge, World, a2s, npm, printed, root};

/// The code block of this name.
fn block(name: &str) -> String {
    let page = std::fs::read_to_string(root().join("docs/agents.md")).unwrap();
    let mut lines = page.lines().skip_while(|line| {
        line.strip_prefix("```")
            .and_then(|rest| rest.split_once(' '))
            .is_none_or(|(_, n)| n != name)
    });
    assert!(lines.next().is_some(), "no block {name}");
    lines.take_while(|line| *line != "```").flat_map(|line| [line, "\n"]).collect()
}

/// The path with the command of these services in front.
fn path_with(command: &Path) -> std::ffi::OsString {
    let folder = command.parent().unwrap().to_owned();
    let rest = std::env::var_os("PATH").unwrap();
    std::env::join_paths(std::iter::once(folder).chain(std::env::split_paths(&rest))).unwrap()
}

#[test]
fn the_configurations_of_clients_start_something_that_answers() {
    let world = World::up(&[]);
    let command = command_of(&world);
    for (name, servers) in
        [("claude_desktop_config.json", "mcpServers"), (".vscode/mcp.json", "servers")]
    {
        let config: Value = serde_json::from_str(&block(name)).unwrap();
        let server = &config[servers]["a2s"];
        assert_eq!(server["command"], "a2s");
        let arguments: Vec<_> =
            server["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        let mut bridge = Bridge::of(Command::new(&command).args(arguments));
        bridge.say(&serde_json::json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        }));
        assert_eq!(bridge.hear()["result"]["serverInfo"]["name"], "a2s");
        assert!(bridge.end().success());
    }
    let config: Value = serde_json::from_str(&block(".vscode/mcp.json over HTTP")).unwrap();
    let server = &config["servers"]["a2s"];
    assert_eq!(server["url"], "http://127.0.0.1:8740/mcp");
    let asked = config["inputs"][0]["id"].as_str().unwrap();
    assert_eq!(server["headers"]["Authorization"], format!("Bearer ${{input:{asked}}}"));
}

#[test]
fn the_programs_of_the_page_find_and_run() {
    const SEEN: &str = "found ListDogBreeds 1.0.0\nsucceeded 4 breeds\n";
    let world = World::up(&[]);
    let command = command_of(&world);
    if let Some(python) = std::env::var_os("A2S_TEST_PYTHON") {
        let program = world.write("agent.py", &block("agent.py"));
        let mut python = Command::new(Path::new(&python).join("bin/python"));
        assert_eq!(printed(python.arg(program).env("PATH", path_with(&command))), SEEN);
    }
    let Some(npm) = npm() else { return };
    // Where Node finds the package.
    std::os::unix::fs::symlink(npm.join("node_modules"), world.folder().join("node_modules"))
        .unwrap();
    let program = world.write("agent.mjs", &block("agent.mjs"));
    let mut node = Command::new("node");
    node.arg(program).env("A2S_URL", world.url()).env("A2S_TOKEN", world.token());
    assert_eq!(printed(&mut node), SEEN);
}

#[test]
fn the_flags_of_the_page_are_understood() {
    let page = std::fs::read_to_string(root().join("docs/agents.md")).unwrap();
    let flags = page.lines().find(|line| line.starts_with("a2s up --mcp-tool")).unwrap();
    let mut words: Vec<&str> = flags.split(' ').skip(1).collect();
    // It refuses the last word alone, so it has understood the others.
    words.extend(["--listen", "nowhere"]);
    let ran = a2s(&words).exits(2);
    assert!(ran.stderr.contains("nowhere") && !ran.stderr.contains("mcp-tool"), "{ran:?}");
}
