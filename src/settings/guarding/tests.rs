use super::*;

fn arguments(guardians: &[&str], token: Option<&str>, fail: Option<FailMode>) -> GuardingSettings {
    GuardingSettings {
        guardians: guardians.iter().map(|text| text.parse().unwrap()).collect(),
        guardian_token: token.map(Secret::new),
        guardian_fail: fail,
        tables: GuardianTables::default(),
    }
}

fn read(file: &str, flags: &GuardingSettings) -> Result<Vec<ConfiguredGuardian>, String> {
    let file = toml::from_str(file).map_err(|error| error.to_string())?;
    let read = flags.resolve(&file, GuardianChoice::Builtin);
    match read.map_err(|failure| failure.message)? {
        GuardianSelection::Off => Ok(Vec::new()),
        GuardianSelection::Chain(guardians) => Ok(guardians),
    }
}

fn over_http(config: &GuardianConfig) -> &HttpEndpoint {
    match &config.endpoint {
        GuardianEndpoint::Http(endpoint) => endpoint,
        GuardianEndpoint::InProcess(_) => panic!("it is in this process"),
    }
}

/// The names of the guardians, in order, with what their silence means.
fn names(file: &str, flags: &[&str], fail: Option<FailMode>) -> Vec<String> {
    let modes = |fail: &FailModes| {
        let own = fail.by_hook.iter().map(|(hook, mode)| format!(" {hook}={}", mode.as_str()));
        format!("{}{}", fail.default.as_str(), own.collect::<String>())
    };
    let name = |guardian: &ConfiguredGuardian| match guardian {
        ConfiguredGuardian::Builtin { fail, .. } => format!("builtin {}", modes(fail)),
        ConfiguredGuardian::Remote(config) => format!("{} {}", config.name, modes(&config.fail)),
    };
    read(file, &arguments(flags, None, fail)).unwrap().iter().map(name).collect()
}

const TWO: &str = "
[[guardian]]
name = 'company'
url = 'https://a.example/aos'
fail-hooks = {toolCallResult = 'open', 'steps/memoryStore' = 'closed'}

[[guardian]]
url = 'builtin'
fail = 'open'
";
const COMPANY: &str = "company closed steps/memoryStore=closed steps/toolCallResult=open";

#[test]
fn flags_say_who_is_asked_and_tables_how() {
    let none = [""; 0];
    assert_eq!(names("", &[], None), ["builtin closed"]);
    assert_eq!(names("", &["off"], None), none);
    assert_eq!(names("guardian = 'off'", &[], None), none);
    assert_eq!(names("guardian = 'http://b.example'", &[], None), ["http://b.example/ closed"]);
    assert_eq!(names("guardian = 'off'", &["builtin"], None), ["builtin closed"]);
    assert_eq!(names(TWO, &[], None), [COMPANY, "builtin open"]);
    // A flag is the whole list, in its order.
    let flags = ["builtin", "http://u:p@c.example/x", "https://a.example/aos"];
    assert_eq!(names(TWO, &flags, None), ["builtin open", "http://c.example/x closed", COMPANY]);
    assert_eq!(names(TWO, &["off"], None), none);
    // One table alone may have one pair of brackets.
    assert_eq!(names("[guardian]\nurl = 'builtin'", &[], None), ["builtin closed"]);
}

#[test]
fn fail_mode_flag_wins_over_the_file() {
    let two = format!("guardian-fail = 'open'\n{}", TWO.replace("fail = 'open'", ""));
    let company = COMPANY.replacen("closed steps", "open steps", 1);
    assert_eq!(names(&two, &[], None), [company.as_str(), "builtin open"]);
    let closed = Some(FailMode::Closed);
    assert_eq!(names(&two, &[], closed), ["company closed", "builtin closed"]);
    assert_eq!(names(TWO, &[], Some(FailMode::Open)), ["company open", "builtin open"]);
}

#[test]
fn a_table_tells_how_its_guardian_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, " from-the-file\n").unwrap();
    let file = format!(
        "[[guardian]]
        url = 'https://a.example/aos'
        token-file = '{}'
        certificate = 'agent.pem'
        key = 'agent.key'
        authorities = 'ca.pem'
        timeout = '2s 500ms'",
        path.display()
    );
    let only = |token: Option<&str>| {
        let mut read = read(&file, &arguments(&[], token, None)).unwrap();
        let ConfiguredGuardian::Remote(config) = read.remove(0) else { panic!("{read:?}") };
        *config
    };
    let config = only(None);
    let HttpEndpoint { url, token, identity, authorities } = over_http(&config);
    assert_eq!(url.as_str(), "https://a.example/aos");
    assert_eq!(token.as_ref().unwrap().expose_secret(), "from-the-file");
    let (certificate, key) = ("agent.pem".into(), "agent.key".into());
    assert_eq!(*identity, Some(ExecutorCertificate { certificate, key }));
    assert_eq!(*authorities, Some("ca.pem".into()));
    assert_eq!(config.timeout, Duration::from_millis(2_500));
    assert_eq!(config.fail, FailMode::Closed.into());
    assert_eq!(config.name, "https://a.example/aos");
    // Whoever starts it wins.
    let told = only(Some("of-the-flag"));
    assert_eq!(over_http(&told).token.as_ref().unwrap().expose_secret(), "of-the-flag");
    let plain = read(
        "[[guardian]]\nurl = 'https://a.example/'\ntoken = 'in-the-file'",
        &arguments(&[], None, None),
    );
    let [ConfiguredGuardian::Remote(config)] = &plain.unwrap()[..] else { panic!("one guardian") };
    assert_eq!(over_http(config).token.as_ref().unwrap().expose_secret(), "in-the-file");
    assert!(!format!("{config:?}").contains("in-the-file"));
}

#[test]
fn what_cannot_be_meant_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "\n").unwrap();
    let empty = format!("token-file = '{}'", empty.display());
    let table = |more: &str| format!("[[guardian]]\nurl = 'https://a.example/'\n{more}");
    let builtin = |more: &str| format!("[[guardian]]\nurl = 'builtin'\n{more}");
    let twice = format!("{}\n{}", table(""), table("name = 'b'"));
    for (file, flags, token, words) in [
        (String::new(), &["off", "builtin"][..], None, "`off` means no guardian"),
        (String::new(), &["builtin", "builtin"], None, "the guardian builtin is configured twice"),
        (twice, &[], None, "the guardian https://a.example/ is configured twice"),
        (String::new(), &["http://a/", "http://b/"], Some("t"), "one token for several guardians"),
        (table("fail-hooks = {message = 'open'}"), &[], None, "unknown hook `message`"),
        (table("fail = 'ajar'"), &[], None, "unknown variant `ajar`"),
        (table("retries = 3"), &[], None, "unknown field `retries`"),
        (table("timeout = '0s'"), &[], None, "a time of at most 5 minutes"),
        (table("timeout = '6m'"), &[], None, "a time of at most 5 minutes"),
        (table("certificate = 'a'"), &[], None, "a `certificate` requires its `key`"),
        (table("key = 'a'"), &[], None, "a `key` requires its `certificate`"),
        (table("token = 'a'\ntoken-file = 'b'"), &[], None, "cannot be combined"),
        (table("token-file = '/nowhere/t'"), &[], None, "/nowhere/t: No such file"),
        (table(&empty), &[], None, "the file has no token"),
        (
            table("name = 'builtin'"),
            &[],
            None,
            "`builtin` is the name of the guardian in this process",
        ),
        (builtin("token = 'a'"), &[], None, "must not have a name, token or certificates"),
        (builtin("name = 'a'"), &[], None, "must not have a name, token or certificates"),
        ("[[guardian]]\nname = 'a'".to_owned(), &[], None, "missing field `url`"),
        ("guardian = 'ftp://a'".to_owned(), &[], None, "an http(s) URL"),
        ("guardian = 7".to_owned(), &[], None, "or [[guardian]] tables"),
    ] {
        let error = read(&file, &arguments(flags, token, None)).unwrap_err();
        assert!(error.contains(words), "{file}: {error}");
    }
}

#[test]
fn how_long_a_guardian_that_is_away_is_asked_again_is_bounded() {
    let retry_for = |line: &str| {
        let file = format!("[[guardian]]\nurl = 'https://a.example/aos'\n{line}");
        read(&file, &arguments(&[], None, None)).map(|guardians| match &guardians[0] {
            ConfiguredGuardian::Remote(config) => config.retry_for,
            ConfiguredGuardian::Builtin { .. } => panic!("it has an address"),
        })
    };
    assert_eq!(retry_for(""), Ok(Duration::from_secs(3)));
    assert_eq!(retry_for("retry-for = '10s'"), Ok(Duration::from_secs(10)));
    assert_eq!(retry_for("retry-for = '0s'"), Ok(Duration::ZERO));
    for wrong in ["2m", "-1s"] {
        let refused = retry_for(&format!("retry-for = '{wrong}'")).unwrap_err();
        assert!(refused.contains("retry-for"), "{refused}");
    }
    let builtin = "[[guardian]]\nurl = 'builtin'\nretry-for = '1s'";
    read(builtin, &arguments(&[], None, None)).unwrap_err();
}
