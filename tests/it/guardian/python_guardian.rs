//! A guardian in another language, written from the AOS text alone: `tests/python/guardian.py`.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::harness::World;

/// It ends when this is dropped.
struct Guardian {
    child: Child,
    url: String,
}

impl Guardian {
    /// None where there is no Python for tests.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn start() -> Option<Self> {
        let Some(folder) = std::env::var_os("A2S_TEST_PYTHON") else {
            eprintln!(
                "SKIPPED: A2S_TEST_PYTHON names no folder, so no guardian of others was asked"
            );
            return None;
        };
        let mut child = Command::new(Path::new(&folder).join("bin/python"))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/guardian.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Some(Self { child, url: url.trim().to_owned() })
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // One that has stopped already is as good as killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_allows_denies_and_changes_runs() {
    let Some(guardian) = Guardian::start() else { return };
    let world = World::up(&["--guardian", &guardian.url]);
    let asked = |world: &World| -> Vec<String> {
        let received = world.standin("api.weather.com").received();
        received.into_iter().map(|request| request.target).collect()
    };
    let run = |place: &str, code: i32| {
        let place = format!("location={place}");
        let arguments = ["run", "PostWeatherTweet", "--json", "--input", &place];
        world.a2s(&[&arguments[..], &["--input", "message=Now:"]].concat()).exits(code).one()
    };

    let allowed = run("Oslo", 0);
    assert_eq!(allowed["output"]["WEATHER_TEXT"], "Sunny with light clouds, high of 24 °C");
    assert_eq!(asked(&world), ["/current/Oslo"]);

    let denied = run("Atlantis", 3);
    let message = denied["error"]["message"].as_str().unwrap();
    assert!(message.contains("Nobody goes to Atlantis."), "{denied}");
    assert_eq!(asked(&world), ["/current/Oslo"], "nothing was sent");

    run("Paris", 0);
    assert_eq!(asked(&world)[1..], ["/current/Rome"], "other inputs");

    let reworded = run("Lisbon", 0);
    assert_eq!(reworded["output"]["WEATHER_TEXT"], "Foggy with light clouds, high of 24 °C");

    // What is remembered, too.
    world.a2s(&["state", "set", "location=Paris"]).exits(0);
    world.a2s(&["run", "PostWeatherTweet", "--input", "message=Now:"]).exits(0);
    assert_eq!(asked(&world)[3..], ["/current/Rome"]);
}
