//! The commands of README, tutorials and guides, run as a reader would run them.
//!
//! The info string of a fenced block says what it is:
//!
//! - `sh`: run, in order, by one `bash -eo pipefail` in an empty folder with `a2s` on the `PATH`.
//! - `sh fails`: each command of it has to end with a code other than 0.
//! - `sh no-test`: not run.
//! - `LANGUAGE title=NAME`: written to the file NAME before the next `sh` block.
//! - `text` directly after a `sh` block: each line is in the output of that block; `…` stands for anything.
//! - A block of another language is for the reader alone. The programs of the README are those of the
//!   READMEs of the SDKs, whose tests run them.

use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::harness::root;

/// The address that pages write for services of A2S. Each test has its own.
const DEFAULT_ADDRESS: &str = "127.0.0.1:8740";
/// The longest that a page may take, in seconds.
const TIMEOUT: &str = "240";

/// A block that is run.
#[derive(Debug, Default)]
struct ShellBlock {
    /// The number of its first line in the page.
    line: usize,
    must_fail: bool,
    source: String,
    /// The files to write before it, as name and text.
    files: Vec<(String, String)>,
    /// Lines that its output has to contain.
    expected: Vec<String>,
}

/// The blocks of a page that are run, in order.
fn parse_page(page: &str) -> Vec<ShellBlock> {
    let mut blocks: Vec<ShellBlock> = Vec::new();
    let mut files = Vec::new();
    let mut follows_shell = false;
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let ticks: String = line.chars().take_while(|c| *c == '`').collect();
        if ticks.len() < 3 {
            follows_shell &= line.trim().is_empty();
            continue;
        }
        let info = line[ticks.len()..].trim();
        let mut text = String::new();
        for (_, line) in lines.by_ref().take_while(|(_, line)| line.trim_end() != ticks) {
            text.push_str(line);
            text.push('\n');
        }
        let expects = follows_shell && info == "text";
        follows_shell = false;
        match info {
            "sh" | "sh fails" => {
                let (files, must_fail) = (std::mem::take(&mut files), info == "sh fails");
                let (line, expected) = (number + 1, Vec::new());
                blocks.push(ShellBlock { line, must_fail, source: text, files, expected });
                follows_shell = true;
            }
            "text" if expects => {
                let block = blocks.last_mut().unwrap();
                block.expected = text.lines().map(str::to_owned).collect();
            }
            _ => {
                assert!(!info.starts_with("sh ") || info == "sh no-test", "unknown: {info}");
                let title = info.split_whitespace().find_map(|word| word.strip_prefix("title="));
                files.extend(title.map(|name| (name.to_owned(), text)));
            }
        }
    }
    blocks
}

/// The script of a page. The output of each block goes to `OUT/INDEX`, and `OUT/INDEX.ok` is there when the
/// block has done what it should.
fn write_script(blocks: &[ShellBlock], out: &Path) -> String {
    let out = out.display();
    let mut script = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        script.push(format!("exec >'{out}/{index}' 2>&1"));
        for (name, text) in &block.files {
            script.push(format!("mkdir -p \"$(dirname '{name}')\""));
            script.push(format!(
                "cat >'{name}' <<'END_OF_FILE'
{text}END_OF_FILE"
            ));
        }
        if block.must_fail {
            for command in block.source.replace("\\\n", " ").lines().filter(|line| !line.is_empty())
            {
                script.push(format!("if {command}\nthen echo 'it ended with 0'; exit 99; fi"));
            }
        } else {
            script.push(block.source.clone());
        }
        script.push(format!("touch '{out}/{index}.ok'"));
    }
    script.join("\n")
}

/// Returns true when a line of the output contains the parts of `expected` in order.
fn has_line(output: &str, expected: &str) -> bool {
    output.lines().any(|line| {
        let mut rest = Some(line);
        for part in expected.trim_end().split('…') {
            rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, rest)| rest);
        }
        rest.is_some()
    })
}

/// A port that is free, below those that the system gives to sockets without one: no other test gets it.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(21_000);
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Runs the commands of a page, and checks what they print.
#[track_caller]
fn check_page(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path_of = |name: &str| folder.path().join(name);
    for name in ["work", "bin", "home", "out"] {
        std::fs::create_dir(path_of(name)).unwrap();
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_a2s"), path_of("bin/a2s")).unwrap();
    let [a2s, service, registry, executor, guardian] =
        std::array::from_fn(|_| free_port().to_string());
    let page = std::fs::read_to_string(root().join(name)).unwrap();
    let blocks = parse_page(&page.replace(DEFAULT_ADDRESS, &format!("127.0.0.1:{a2s}")));
    assert!(!blocks.is_empty(), "{name} has no commands");
    let script = path_of("script");
    std::fs::write(&script, write_script(&blocks, &path_of("out"))).unwrap();
    let mut search_path = path_of("bin").into_os_string();
    search_path.push(":");
    search_path.push(std::env::var_os("PATH").unwrap());
    let mut shell = Command::new("timeout")
        .args([TIMEOUT, "bash", "-eo", "pipefail"])
        .arg(&script)
        .current_dir(path_of("work"))
        .env_clear()
        .env("PATH", search_path)
        .env("HOME", path_of("home"))
        .envs([("USER", "tester"), ("LANG", "C.UTF-8")])
        .env("A2S_DATA_DIR", path_of("data"))
        .env("A2S_LISTEN", format!("127.0.0.1:{a2s}"))
        .env("A2S_URL", format!("http://127.0.0.1:{a2s}"))
        .envs([("PORT", service), ("REGISTRY_PORT", registry)])
        .envs([("EXECUTOR_PORT", executor), ("GUARDIAN_PORT", guardian)])
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let status = shell.wait().unwrap();
    // What the page has started in the background.
    let group = format!("-{}", shell.id());
    let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
    for (index, block) in blocks.iter().enumerate() {
        let output = std::fs::read(path_of(&format!("out/{index}"))).unwrap_or_default();
        let output = String::from_utf8_lossy(&output);
        let at = format!("{name}:{}", block.line);
        let is_done = path_of(&format!("out/{index}.ok")).exists();
        assert!(is_done, "{at}: {status}\n{}\n{output}", block.source);
        for line in &block.expected {
            assert!(has_line(&output, line), "{at}: no `{line}` in\n{output}");
        }
    }
}

#[test]
fn commands_of_the_readme_work() {
    check_page("README.md");
}

#[test]
fn commands_of_the_http_guide_work() {
    check_page("docs/http.md");
}

#[test]
fn tutorial_for_publishers_works() {
    check_page("docs/tutorials/publisher.md");
}

#[test]
fn tutorial_for_agent_builders_works() {
    check_page("docs/tutorials/agent-builder.md");
}

#[test]
fn tutorial_for_security_engineers_works() {
    check_page("docs/tutorials/security-engineer.md");
}

#[test]
fn tutorial_for_operators_works() {
    check_page("docs/tutorials/operator.md");
}

#[test]
fn the_programs_of_the_readme_are_tested_by_the_sdks() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap();
    let page = read("README.md");
    for (language, sdk) in [("python", "python"), ("ts", "typescript"), ("go", "go")] {
        let begin = format!("```{language}\n");
        let (_, rest) = page.split_once(&begin).unwrap();
        let (program, _) = rest.split_once("\n```\n").unwrap();
        let tested = read(&format!("sdk/{sdk}/README.md"));
        assert!(tested.contains(&format!("{begin}{program}\n```")), "{program}");
    }
}
