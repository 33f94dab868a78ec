use super::*;

fn pin(name: &str, version: &str) -> CapabilityRef {
    let checksum = Digest::of_bytes(format!("{name} {version}").as_bytes());
    CapabilityRef { name: name.parse().unwrap(), version: version.parse().unwrap(), checksum }
}

fn basis() -> PlanBasis {
    let used = |scheme: &str, set_at: Option<i64>| UsedCredential {
        host: "api.example".to_owned(),
        scheme: scheme.to_owned(),
        kind: "bearer".to_owned(),
        set_at: set_at.map(|second| Timestamp::from_second(second).unwrap()),
    };
    PlanBasis {
        content: PlanContents {
            capability: pin("Top", "1.2.0"),
            dependencies: vec![pin("Left", "1.0.0"), pin("Right", "1.0.0"), pin("Right", "2.0.0")],
            choices: ResolvedDependencies::default(),
        },
        inputs: Map::from_iter([
            ("city".to_owned(), json!("Paris")),
            ("unit".to_owned(), json!("celsius")),
        ]),
        sealed: None,
        recalled: BTreeMap::from([("city".to_owned(), StateScope::Persistent)]),
        session: Some("s".to_owned()),
        hosts: BTreeMap::from([
            ("a.example".to_owned(), None),
            ("b.example".to_owned(), Some("http://127.0.0.1:1/".to_owned())),
        ]),
        credentials: vec![used("key", Some(1)), used("card", None)],
        guarding: vec![guarding("company", "closed"), guarding("builtin", "closed")],
        policies: BTreeMap::from([("builtin".to_owned(), "sha256:aa".to_owned())]),
    }
}

fn guarding(name: &str, fail: &str) -> GuardianInfo {
    let (guardian, fail) = (name.to_owned(), fail.to_owned());
    GuardianInfo { guardian, address: None, fail_mode: fail, fail_mode_by_hook: BTreeMap::new() }
}

/// What is told of a change: all of it, and in a digest of its own.
#[track_caller]
fn check(change: impl FnOnce(&mut PlanBasis), expected: &[&str]) {
    let (was, mut is) = (basis(), basis());
    change(&mut is);
    assert_eq!(differences(&was, &is), expected);
    assert_ne!(was.digest(), is.digest(), "{expected:?}");
}

#[test]
fn nothing_differs_from_itself() {
    assert_eq!(differences(&basis(), &basis()), [""; 0]);
    assert_eq!(basis().digest(), basis().digest());
    let stored = serde_json::to_string(&basis()).unwrap();
    assert_eq!(serde_json::from_str::<PlanBasis>(&stored).unwrap(), basis());
}

#[test]
fn contents_are_told_by_what_tells_them_apart() {
    check(
        |is| is.content.capability = pin("Top", "1.3.0"),
        &["`Top` is now version 1.3.0, and was 1.2.0"],
    );
    let other = Digest::of_bytes(b"other");
    let was = pin("Top", "1.2.0").checksum;
    check(
        |is| is.content.capability.checksum = other,
        &[&format!("`Top` 1.2.0 now has the checksum {other}, and had {was}")],
    );
    check(
        |is| is.content.dependencies[0] = pin("Left", "1.1.0"),
        &["the version of `Left` is now 1.1.0, and was 1.0.0"],
    );
    check(
        |is| is.content.dependencies.truncate(2),
        &["the version of `Right` is now 1.0.0, and was 1.0.0 and 2.0.0"],
    );
    let was = pin("Left", "1.0.0").checksum;
    check(
        |is| is.content.dependencies[0].checksum = other,
        &[&format!("the version of `Left` is now {other}, and was {was}")],
    );
    check(
        |is| is.content.dependencies[0] = pin("New", "1.0.0"),
        &["`Left` 1.0.0 is not used any more", "`New` 1.0.0 is used now"],
    );
    check(
        |is| {
            let meant = ("Right".parse().unwrap(), pin("Right", "2.0.0").checksum);
            let of = BTreeMap::from([meant]);
            is.content.choices.0.insert(is.content.capability.checksum, of);
        },
        &["a dependency resolves to another version"],
    );
}

#[test]
fn input_sources_are_reported_without_values() {
    let set =
        |is: &mut PlanBasis, name: &str, value: Value| is.inputs.insert(name.to_owned(), value);
    check(|is| drop(set(is, "city", json!("Oslo"))), &["state `city` has changed"]);
    check(|is| drop(set(is, "unit", json!("kelvin"))), &["input `unit` has another default"]);
    check(
        |is| is.recalled = BTreeMap::from([("city".to_owned(), StateScope::Session)]),
        &["state `city` now comes from session state, and came from persistent state"],
    );
    check(
        |is| {
            is.recalled.clear();
            is.inputs.shift_remove("city");
        },
        &["state `city` is not remembered any more"],
    );
    check(
        |is| {
            set(is, "more", json!(1));
            is.recalled.insert("more".to_owned(), StateScope::Session);
        },
        &["state `more` is now remembered and used"],
    );
}

#[test]
fn hosts_credentials_and_guardian_are_told_one_by_one() {
    let host = |is: &mut PlanBasis, host: &str, to: Option<&str>| {
        is.hosts.insert(host.to_owned(), to.map(str::to_owned));
    };
    check(
        |is| host(is, "a.example", Some("http://x/")),
        &["connections for a.example now go to http://x/, and went to the host itself"],
    );
    check(
        |is| host(is, "b.example", None),
        &["connections for b.example now go to the host itself, and went to http://127.0.0.1:1/"],
    );
    check(
        |is| {
            is.hosts.remove("a.example");
            host(is, "c.example", None);
        },
        &[
            "the run sends no requests to a.example any more",
            "the run now sends requests to c.example",
        ],
    );
    let replaced = "credential `key` for api.example was replaced";
    check(|is| is.credentials[0].set_at = None, &[replaced]);
    check(|is| is.credentials[0].kind = "oauth2".to_owned(), &[replaced]);
    check(
        |is| is.credentials.truncate(1),
        &["credential `card` for api.example is not sent any more"],
    );
    check(
        |is| {
            let used = UsedCredential { scheme: "x\nnew".to_owned(), ..is.credentials[0].clone() };
            is.credentials.push(used);
        },
        &["credential `x new` for api.example is now sent"],
    );
    check(
        |is| {
            is.guarding.clear();
            is.policies.clear();
        },
        &[
            "the guardian is now off, and was company, then builtin",
            "the policy of guardian builtin is now unknown, and was sha256:aa",
        ],
    );
    check(
        |is| is.guarding.reverse(),
        &["the guardian is now builtin, then company, and was company, then builtin"],
    );
    let hook = "steps/toolCallResult";
    check(
        |is| {
            is.guarding[0].address = Some("http://127.0.0.1:1/".to_owned());
            is.guarding[1].fail_mode_by_hook.insert(hook.to_owned(), "open".to_owned());
            is.policies.insert("company".to_owned(), "b".to_owned());
        },
        &[
            "the guardian company now has another address",
            "the fail mode of guardian builtin is now closed, open for steps/toolCallResult, and was closed",
            "the policy of guardian company is now b, and was unknown",
        ],
    );
    check(|is| is.session = None, &["the session is different"]);
}

#[test]
fn a_number_that_others_cannot_read_has_no_digest() {
    let mut basis = basis();
    basis.inputs.insert("n".to_owned(), json!(9_007_199_254_740_993_u64));
    assert!(basis.digest().unwrap_err().to_string().contains("9007199254740993"));
}
