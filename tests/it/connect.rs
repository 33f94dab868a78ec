//! `a2s connect`: the configuration of MCP clients.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::a2s_in;

const CLIENTS: [(&str, &str); 7] = [
    ("claude", ".config/Claude/claude_desktop_config.json"),
    ("claude-code", ".mcp.json"),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".config/Code/User/mcp.json"),
    ("codex", ".codex/config.toml"),
    ("zed", ".config/zed/settings.json"),
    ("windsurf", ".codeium/windsurf/mcp_config.json"),
];

fn connect(home: &Path, arguments: &[&str]) -> crate::harness::Ran {
    let environment = [("HOME", home.to_str().unwrap())];
    a2s_in(home, &environment, &[&["connect"], arguments].concat())
}

#[test]
#[cfg(target_os = "linux")]
fn each_client_gets_an_entry_in_its_own_file() {
    let home = tempfile::tempdir().unwrap();
    for (client, file) in CLIENTS {
        let printed = connect(home.path(), &[client, "--print"]).exits(0);
        assert!(printed.stdout.contains("a2s") && printed.stdout.contains("mcp"), "{printed:?}");
        assert!(!home.path().join(file).exists(), "{client}");
        let done = connect(home.path(), &[client, "--json"]).exits(0).one();
        assert_eq!((&done["changed"], &done["backup"]), (&Value::Bool(true), &Value::Null));
        let text = fs::read_to_string(home.path().join(file)).unwrap();
        assert!(text.contains(env!("CARGO_BIN_EXE_a2s")), "{text}");
        assert_eq!(text, printed.stdout, "{client}");
        let again = connect(home.path(), &[client, "--json"]).exits(0).one();
        assert_eq!(again["changed"], false, "{client}");
    }
}

#[test]
fn a_changed_file_is_kept_and_a_broken_one_stays() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("settings.json");
    let settings = "// mine\n{\"theme\": \"dark\"}\n";
    fs::write(&file, settings).unwrap();
    let name = file.to_str().unwrap();
    let done =
        connect(home.path(), &["zed", "--file", name, "--url", "http://127.0.0.1:9"]).exits(0);
    assert!(done.stdout.contains("settings.json.backup"), "{done:?}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("// mine\n") && text.contains("\"--url\""), "{text}");
    assert_eq!(fs::read_to_string(home.path().join("settings.json.backup")).unwrap(), settings);

    fs::write(&file, "{\"theme\": ").unwrap();
    let refused = connect(home.path(), &["zed", "--file", name]).exits(1);
    assert!(refused.stderr.contains("stays as it is"), "{refused:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{\"theme\": ");
    connect(home.path(), &["zed", "--name", "a b"]).exits(2);
    connect(home.path(), &["emacs"]).exits(2);
}

#[test]
#[cfg(unix)]
fn the_file_behind_a_link_is_changed() {
    let home = tempfile::tempdir().unwrap();
    let target = home.path().join("dotfiles.json");
    fs::write(&target, "{}\n").unwrap();
    let link = home.path().join(".mcp.json");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    connect(home.path(), &["claude-code"]).exits(0);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&target).unwrap().contains("mcpServers"));
}
