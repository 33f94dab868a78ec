//! The world that tests run in: `a2s up` as a process of its own, stand-ins for the services, and
//! the command as a user types it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use axum::Router;
use serde_json::Value;
use tempfile::TempDir;
use test_support::mock_services::{self, MockService, MockServiceBuilder};
use tokio::runtime::Runtime;

/// Where stand-ins run, and HTTP requests of tests.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// Serves `router` on a free port of loopback while the tests run, and returns its address, without a
/// path.
pub(crate) fn serve(router: Router) -> String {
    format!("http://{}", RUNTIME.block_on(test_support::serve(router)))
}

/// The time after which a command that should have ended is killed.
const LONGEST_COMMAND: Duration = Duration::from_secs(300);

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A shipped document.
pub(crate) fn shipped(name: &str) -> PathBuf {
    root().join("capabilities").join(format!("{name}.yaml"))
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The transcript, with everything that differs from run to run replaced.
    pub(crate) fn transcript(&self) -> String {
        let text =
            format!("exit {}\n-- stdout\n{}-- stderr\n{}", self.code, self.stdout, self.stderr);
        redact(&text)
    }

    /// The JSON values of the lines.
    pub(crate) fn json(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The only JSON value.
    #[track_caller]
    pub(crate) fn one(&self) -> Value {
        let mut values = self.json();
        assert_eq!(values.len(), 1, "{self:?}");
        values.remove(0)
    }

    /// The same, after checking how it ended.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// Replaces ids, times, ports and folders by what they are.
pub(crate) fn redact(text: &str) -> String {
    const RULES: [(&str, &str); 9] = [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
        (r"\d+(\.\d+)? ms", "<n> ms"),
        (r#""(duration_ms|search_time_ms)":[0-9.]+"#, r#""$1":<n>"#),
        (r"(/[\w.-]+)*/\.tmp\w+", "<folder>"),
        (r"\d+ bytes", "<n> bytes"),
        (r"--plan [0-9a-f]{32}", "--plan <token>"),
        // What a plan was made of has ports in it.
        (r"(digest of the plan:|as planned ) *sha256:[0-9a-f]{64}", "$1 <digest>"),
    ];
    RULES.iter().fold(text.to_owned(), |text, (pattern, with)| {
        regex::Regex::new(pattern).unwrap().replace_all(&text, *with).into_owned()
    })
}

/// Holds a page of the repository that is generated to what it should be, or writes it when
/// `UPDATE_DOCS` is set.
#[track_caller]
pub(crate) fn assert_page(name: &str, current: &str) {
    let path = root().join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, current).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let lines = committed.lines().zip(current.lines()).zip(1..);
    let first = lines.into_iter().find(|((committed, current), _)| committed != current);
    assert!(
        committed == current,
        "{name} is stale: UPDATE_DOCS=1 cargo test --test it\n{first:#?}"
    );
}

/// Runs the command without any service.
pub(crate) fn a2s(arguments: &[&str]) -> Ran {
    a2s_in(Path::new("."), &[], arguments)
}

/// Runs the command in a folder with environment variables of its own and none of this process's.
pub(crate) fn a2s_in(folder: &Path, environment: &[(&str, &str)], arguments: &[&str]) -> Ran {
    let mut command = command(environment);
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    ran(command, b"")
}

/// What came of a command that reads `input`. One that does not end is killed, and has no exit code.
fn ran(mut command: Command, input: &[u8]) -> Ran {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input).unwrap();
    }
    let pid = child.id().to_string();
    let (ended, watched) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if watched.recv_timeout(LONGEST_COMMAND) == Err(RecvTimeoutError::Timeout) {
            Command::new("kill").args(["-KILL", &pid]).status().unwrap();
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(ended);
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The same, with something on standard input.
pub(crate) fn a2s_reading(input: &str, environment: &[(&str, &str)], arguments: &[&str]) -> Ran {
    let mut command = command(environment);
    command.args(arguments).stdin(Stdio::piped());
    ran(command, input.as_bytes())
}

/// The folder with the programs of Python, as `A2S_TEST_PYTHON` says; none where they are not installed.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
pub(crate) fn python() -> Option<PathBuf> {
    let folder = std::env::var_os("A2S_TEST_PYTHON").map(|folder| root().join(folder).join("bin"));
    if folder.is_none() {
        eprintln!("SKIPPED: A2S_TEST_PYTHON names no folder, so no reader of others was asked");
    }
    folder
}

/// What a script of `tests/python` makes of `input`, with the readers of others that are installed; none
/// without them.
pub(crate) fn asked_others(script: &str, input: &[u8]) -> Option<String> {
    let mut reader = Command::new(python()?.join("python"))
        .arg(root().join("tests/python").join(script))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = reader.stdin.take().unwrap();
    // It may answer while it still reads.
    let read = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).unwrap());
        reader.wait_with_output().unwrap()
    });
    assert!(read.status.success(), "{script} refuses it");
    Some(String::from_utf8(read.stdout).unwrap())
}

/// Where the packages of npm are, as `A2S_TEST_NPM` says; none where they are not installed.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
pub(crate) fn npm() -> Option<PathBuf> {
    let folder = std::env::var_os("A2S_TEST_NPM").map(|folder| root().join(folder));
    if folder.is_none() {
        eprintln!("SKIPPED: A2S_TEST_NPM names no folder, so no client of others was asked");
    }
    folder
}

/// What a program printed, when it ended well.
#[track_caller]
pub(crate) fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{stdout}{stderr}");
    stdout.into_owned()
}

/// The command, to be run with environment variables of its own and none of this process's.
pub(crate) fn command(environment: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_a2s"));
    command.env_clear().env("HOME", "/nonexistent").envs(environment.iter().copied());
    command
}

/// Services under test, and the stand-ins they talk to.
pub(crate) struct World {
    folder: TempDir,
    flags: Vec<String>,
    standins: Vec<MockService>,
    server: Option<Server>,
}

/// A process that serves. It is killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    stdout: BufReader<ChildStdout>,
    url: String,
    data: PathBuf,
}

impl Server {
    /// Starts `a2s` with `arguments`, and waits until it says that it is ready. Its log goes by
    /// `rules` to `log`.
    fn start(
        arguments: &[&str],
        data: PathBuf,
        flags: &[String],
        (rules, log): (&str, Stdio),
    ) -> Self {
        Self::start_command(command(&[]), arguments, data, flags, (rules, log))
    }

    fn start_command(
        mut command: Command,
        arguments: &[&str],
        data: PathBuf,
        flags: &[String],
        (rules, log): (&str, Stdio),
    ) -> Self {
        let mut child = command
            .args(arguments)
            .args(["--json", "--listen", "127.0.0.1:0", "--log", rules, "--data-dir"])
            .arg(&data)
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let ready: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("not ready: {line}"));
        let url = ready["url"].as_str().unwrap().to_owned();
        Self { child, stdout, url, data }
    }

    /// One service alone, on a data folder.
    pub(crate) fn alone(name: &str, data: PathBuf, flags: &[&str]) -> Self {
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        Self::start(&["serve", name], data, &flags, quiet())
    }

    /// The same with its log at the end of a file: for one that will have much to say.
    pub(crate) fn alone_logging(name: &str, data: PathBuf, flags: &[&str], log: &Path) -> Self {
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        Self::start(&["serve", name], data, &flags, ("info", Stdio::from(log)))
    }

    /// Where it answers.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Sends the process a signal: `KILL`, `STOP`, `CONT`, `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        assert!(self.child.wait().unwrap().success());
    }

    /// Runs the command against it.
    pub(crate) fn a2s(&self, arguments: &[&str]) -> Ran {
        let environment = [("A2S_URL", self.url()), ("A2S_DATA_DIR", self.data.to_str().unwrap())];
        a2s_in(Path::new("."), &environment, arguments)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has stopped already is as good as killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `a2s mcp` as a process. It is killed when it is dropped.
pub(crate) struct Bridge {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Bridge {
    /// Starts a command that speaks MCP.
    pub(crate) fn of(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Says a message.
    pub(crate) fn say(&self, message: &Value) {
        let mut stdin = self.child.stdin.as_ref().unwrap();
        stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    /// Hears the next message.
    pub(crate) fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line:?}"))
    }

    /// Says that nothing more comes, and waits for the end.
    pub(crate) fn end(mut self) -> std::process::ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().unwrap()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // One that has stopped already is as good as killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Errors alone, where the tests show them.
fn quiet() -> (&'static str, Stdio) {
    ("error", Stdio::inherit())
}

impl World {
    /// `a2s up` with every stand-in, and further flags.
    pub(crate) fn up(flags: &[&str]) -> Self {
        let mut world = Self::down(flags);
        world.start();
        world
    }

    /// The same, not started yet.
    pub(crate) fn down(flags: &[&str]) -> Self {
        Self::among(mock_services::all(), flags)
    }

    /// The same, with other stand-ins.
    pub(crate) fn among(services: Vec<MockServiceBuilder>, flags: &[&str]) -> Self {
        let standins: Vec<MockService> = RUNTIME.block_on(async {
            let mut running = Vec::new();
            for service in services {
                running.push(service.start().await);
            }
            running
        });
        let mut all: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        for standin in &standins {
            all.push("--upstream".to_owned());
            all.push(format!("{}={}", standin.host(), standin.url()));
        }
        Self { folder: TempDir::new().unwrap(), flags: all, standins, server: None }
    }

    /// Adds flags for the next start.
    pub(crate) fn add_flags(&mut self, flags: &[&str]) {
        self.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
    }

    /// Starts the services and waits until they say that they are ready.
    pub(crate) fn start(&mut self) {
        self.server = Some(Server::start(&["up"], self.data(), &self.flags, quiet()));
    }

    /// The same, with environment variables.
    pub(crate) fn start_with(&mut self, environment: &[(&str, &str)]) {
        let program = command(environment);
        let server = Server::start_command(program, &["up"], self.data(), &self.flags, quiet());
        self.server = Some(server);
    }

    /// The same, with a log by `rules` in a file.
    pub(crate) fn start_talking(&mut self, rules: &str, log: &Path) {
        let log = Stdio::from(std::fs::File::create(log).unwrap());
        self.server = Some(Server::start(&["up"], self.data(), &self.flags, (rules, log)));
    }

    /// One service alone, on the same data folder.
    pub(crate) fn service(&self, name: &str, flags: &[&str]) -> Server {
        Server::alone(name, self.data(), flags)
    }

    /// The flags that send connections to the stand-ins.
    pub(crate) fn upstreams(&self) -> Vec<&str> {
        self.flags.iter().map(String::as_str).collect()
    }

    /// Ends the services at once, as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.server = None;
    }

    /// Asks the services to stop, and waits until they have. Gives what they have printed since they
    /// were ready.
    pub(crate) fn stop(&mut self) -> String {
        let mut printed = String::new();
        if let Some(mut server) = self.server.take() {
            let pid = server.child.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
            server.stdout.read_to_string(&mut printed).unwrap();
            assert!(server.child.wait().unwrap().success());
        }
        printed
    }

    /// Runs the command against the services.
    pub(crate) fn a2s(&self, arguments: &[&str]) -> Ran {
        let data = self.data();
        let environment = [("A2S_URL", self.url()), ("A2S_DATA_DIR", data.to_str().unwrap())];
        a2s_in(self.folder.path(), &environment, arguments)
    }

    /// Runs the command against the services, with something on standard input.
    pub(crate) fn a2s_reading(&self, input: &str, arguments: &[&str]) -> Ran {
        let data = self.data();
        let environment = [("A2S_URL", self.url()), ("A2S_DATA_DIR", data.to_str().unwrap())];
        a2s_reading(input, &environment, arguments)
    }

    /// Where the services answer.
    pub(crate) fn url(&self) -> &str {
        self.server.as_ref().map_or("http://127.0.0.1:1/", |server| &server.url)
    }

    /// How many bytes of memory the services have now, where the system tells it.
    pub(crate) fn memory(&self) -> Option<u64> {
        self.status("VmRSS:")
    }

    /// How many they have had at the most.
    pub(crate) fn most_memory(&self) -> Option<u64> {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> Option<u64> {
        let pid = self.server.as_ref()?.child.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
    }

    /// `a2s mcp`, to be talked to.
    pub(crate) fn bridge(&self) -> Bridge {
        let data = self.data();
        let mut child =
            command(&[("A2S_URL", self.url()), ("A2S_DATA_DIR", data.to_str().unwrap())])
                .arg("mcp")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Bridge { child, stdout }
    }

    /// The owner's token.
    pub(crate) fn token(&self) -> String {
        std::fs::read_to_string(self.data().join("token")).unwrap().trim().to_owned()
    }

    /// The data folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The folder that the data folder is in, and where commands run.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file beside the data folder and gives its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Publishes a document, with whatever checksum it has.
    pub(crate) fn publish(&self, document: &str) {
        let file = self.write("published.yaml", document);
        self.a2s(&["checksum", "--write", &file]).exits(0);
        self.a2s(&["publish", "--skip-tests", &file]).exits(0);
    }

    /// The stand-in for a host.
    pub(crate) fn standin(&self, host: &str) -> &MockService {
        self.standins.iter().find(|standin| standin.host().as_str() == host).unwrap()
    }
}
