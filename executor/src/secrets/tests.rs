use proptest::prelude::*;
use serde_json::json;

use super::*;

fn secrets(values: &[Value]) -> RunSecrets {
    let secrets = RunSecrets::new([7; 16]);
    values.iter().for_each(|value| secrets.learn(value).unwrap());
    secrets
}

#[track_caller]
fn check(secret: &str, text: &str, expected: &str) {
    assert_eq!(secrets(&[json!(secret)]).mask_text(text), expected);
}

#[test]
fn a_secret_is_found_in_every_spelling() {
    check("s3cret", "Bearer s3cret, s3cret", "Bearer (secret), (secret)");
    check("a b/c?", "https://x.example/a%20b%2Fc%3f/z", "https://x.example/(secret)/z");
    check("a b/c?", "q=a+b%2fc?&n=1", "q=(secret)&n=1");
    check("pä\"ss\n", r#"{"p":"pä\"ss\n"}"#, r#"{"p":"(secret)"}"#);
    check("pä\"s/s", r#""p\u00e4\"s\/s""#, r#""(secret)""#);
    check("😀😀😀😀", r"x\ud83d\ude00\uD83D\uDE00😀😀", "x(secret)");
    check("pässwort", "p%C3%A4sswort", "(secret)");
    check("k&\"'<ä", "<p>k&amp;&quot;&#39;&lt;&#xE4;</p>", "<p>(secret)</p>");
    check("s3cret", "&#115;3cret &#x73;&#x33;cret; &s3cret &", "(secret) (secret); &(secret) &");
    check("k\"ey", r#"{"page": "<p>k&quot;ey</p>"}"#, r#"{"page": "<p>(secret)</p>"}"#);
    check("k\"ey", "&lt;p&gt;k&amp;quot;ey", "&lt;p&gt;(secret)");
    check("k/ey", "href=&quot;?k%2Fey&quot;", "href=&quot;?(secret)&quot;");
    check(
        "k&ey",
        "é&notanentity;é&#xZZ;é&#99999999;k&amp;ey&",
        "é&notanentity;é&#xZZ;é&#99999999;(secret)&",
    );
    check("s3cret", "s3cre t 100% a\\", "s3cre t 100% a\\");
}

#[test]
fn a_secret_is_found_where_its_charset_was_mistaken() {
    // Once as Latin-1, once as Windows-1252, and once more each.
    check("with é-CANARY", "got: with Ã©-CANARY.", "got: (secret).");
    check("with é-CANARY", "got: with Ã\u{83}Â©-CANARY.", "got: (secret).");
    check("with é-CANARY", "got: with ÃƒÂ©-CANARY.", "got: (secret).");
    check("pa€ss", "pa\u{e2}\u{82}\u{ac}ss pâ‚¬ss paâ‚¬ss", "(secret) pâ‚¬ss (secret)");
    check(
        "Grüße",
        r#"{"p": "Gr\u00c3\u00bc\u00c3\u009fe GrÃ¼ÃŸe"}"#,
        r#"{"p": "(secret) (secret)"}"#,
    );
    check("Grüße", "Gr%C3%83%C2%BC%C3%83%C2%9Fe", "(secret)");
    check(
        "Grüße",
        "GrÃ¼Ãe, of which a control character was left out",
        "(secret), of which a control character was left out",
    );
    check("s3cret", "Ã©", "Ã©");
}

#[test]
fn signs_that_are_not_shown_do_not_hide_a_secret_in_a_quotation() {
    let secrets = secrets(&[json!("s3cret")]);
    let headers = http::HeaderMap::from_iter([(
        http::header::RETRY_AFTER,
        HeaderValue::from_static("in s%33cret days"),
    )]);
    let body = bytes::Bytes::from_static(
        "s\u{0}3\u{0}c\u{0}r\u{0}e\u{0}t\u{0} s3\u{200b}cr\u{202e}et\n".as_bytes(),
    );
    let masked = secrets.mask_response(&RawResponse { status: 500, headers, body, redirects: 0 });
    assert_eq!(&masked.body[..], b"(secret) (secret)\n");
    assert_eq!(masked.headers[http::header::RETRY_AFTER], "in (secret) days");
}

#[test]
fn the_longest_secret_is_replaced_as_a_whole() {
    let secrets = secrets(&[json!("abcd"), json!({"k": ["abcdef", 12345]})]);
    assert_eq!(secrets.mask_text("abcdefg abcdx 123456"), "(secret)g (secret)x (secret)6");
    let value = json!({"abcd": [12345, 1234, true, null], "n": {"x": "zabcdef"}});
    let expected = json!({"(secret)": ["(secret)", 1234, true, null], "n": {"x": "z(secret)"}});
    assert_eq!(secrets.mask(&value), expected);
}

#[test]
fn what_is_too_short_is_not_looked_for() {
    let secrets = secrets(&[json!("abc"), json!(123), json!(true), json!("")]);
    assert!(!secrets.is_empty());
    assert_eq!(secrets.mask(&json!(["abc", 123, true])), json!(["abc", 123, true]));
    for (value, findable) in [
        (json!("abc"), false),
        (json!({"a": ["abcd", 1]}), false),
        (json!(false), false),
        (json!(["abcd", 1234, null, ""]), true),
    ] {
        assert_eq!(is_maskable(&value), findable, "{value}");
    }
}

#[test]
fn a_digest_depends_on_the_key_once_there_is_a_secret() {
    let digest = Digest::of_bytes(b"x");
    let blind = |key: [u8; 16]| {
        let secrets = RunSecrets::new(key);
        assert_eq!(secrets.blind_digest(digest), digest);
        secrets.learn(&json!(1)).unwrap();
        secrets.blind_digest(digest)
    };
    assert_eq!(blind([1; 16]), blind([1; 16]));
    assert_ne!(blind([1; 16]), blind([2; 16]));
    assert_ne!(blind([1; 16]), digest);
}

#[test]
fn there_are_only_so_many() {
    let secrets = RunSecrets::default();
    secrets.learn(&json!("x".repeat(MAX_BYTES))).unwrap();
    secrets.learn(&json!("x".repeat(MAX_BYTES))).unwrap();
    let error = secrets.learn(&json!("another")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::BudgetExceeded);
    assert!(!error.message.contains("another"));
}

#[test]
fn what_is_left_in_place_is_true_again() {
    let secrets = secrets(&[json!("s3cret"), json!("geheim")]);
    let truth = json!({"auth": "Bearer s3cret", "list": ["geheim", 1], "geheim": {"x": 1}});
    let shown = secrets.mask(&truth);
    let masked = Masked::new(truth.clone(), shown.clone());
    let mut made = shown.clone();
    made["list"][1] = json!(2);
    made["(secret)"]["y"] = json!("s");
    made["more"] = json!("new");
    let mut expected = truth.clone();
    expected["list"][1] = json!(2);
    expected["geheim"]["y"] = json!("s");
    expected["more"] = json!("new");
    assert_eq!(*masked.restore(made).actual(), expected);
    // Elsewhere it is nothing but a text.
    let moved = json!({"auth": "(secret)"});
    assert_eq!(*masked.restore(moved.clone()).actual(), moved);
    let inputs = |value: &Value| Map::from_iter([("a".to_owned(), value.clone())]);
    let inputs = Masked::new(inputs(&truth), inputs(&shown));
    assert_eq!(inputs.restore(Map::from_iter([("a".to_owned(), moved)])).unwrap_err(), "a");
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,6}", inner, 0..4)
                .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #[test]
    fn no_secret_is_left_whatever_is_around_it(
        secret in "\\PC{4,12}", before in "\\PC{0,12}", after in "\\PC{0,12}",
    ) {
        // A placeholder that holds a secret itself is none of it.
        prop_assume!(!HIDDEN.contains(&secret));
        let secrets = secrets(&[json!(secret)]);
        let text = format!("{before}{secret}{after}");
        let encoded = percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC);
        let quoted = json!(text).to_string();
        for text in [text.clone(), encoded.to_string(), quoted] {
            let masked = secrets.mask_text(&text);
            let decoded = percent_encoding::percent_decode_str(&masked).decode_utf8_lossy();
            // What lies around a placeholder may make up the secret anew only together with it.
            for part in masked.split(HIDDEN).chain(decoded.split(HIDDEN)) {
                prop_assert!(!part.contains(&secret), "{masked}");
            }
        }
    }

    #[test]
    fn what_nobody_touched_is_the_truth(truth in any_value(), secret in "\\PC{1,6}") {
        let secrets = secrets(&[json!(secret)]);
        let shown = secrets.mask(&truth);
        let masked = Masked::new(truth.clone(), shown.clone());
        let restored = masked.restore(shown);
        prop_assert_eq!(restored.actual(), &truth);
        prop_assert_eq!(RunSecrets::default().mask(&truth), truth);
    }
}
