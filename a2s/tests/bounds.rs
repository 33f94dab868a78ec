//! What is made to be expensive is refused, or read where it is legal, within bounded memory. The
//! allocator of this binary counts; time is not measured, because machines differ.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its case has to fail")]

use a2s::{
    Compilation, Condition, JsonPathQuery, QueryError, compile, compile_to_publish,
    compile_with_checksum, parse_value,
};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;

/// Runs `work` and gives what it gives, and the most memory that it held at a time, in bytes.
fn measure<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let mut given = None;
    let info = allocation_counter::measure(|| given = Some(work()));
    (given.unwrap(), info.bytes_max)
}

/// Compiles `source` within so much memory.
#[track_caller]
fn compile_within(source: &[u8], limit: u64) -> Compilation {
    let (compilation, most) = measure(|| compile(source));
    assert!(most <= limit, "{} MiB for {} bytes", most / MIB, source.len());
    compilation
}

/// Refused with `code` and no other error, within so much memory.
#[track_caller]
fn refused(source: &[u8], code: &str, limit: u64) {
    let compilation = compile_within(source, limit);
    assert!(compilation.document.is_none());
    let errors = compilation.diagnostics.iter().filter(|diagnostic| diagnostic.is_error());
    let codes: Vec<&str> = errors.map(|error| &*error.code).collect();
    assert!(codes.contains(&code) && codes.iter().all(|c| *c == code), "{codes:?}");
}

/// A good document with one GraphQL step, as a value to change.
fn document() -> Value {
    json!({
        "a2s": "1.1.0", "name": "Tester", "description": "Tests", "domains": ["api.example.com"],
        "version": "1.0.0", "authors": [{"name": "Tester"}],
        "execution": {"type": "sequence", "steps": [{
            "id": "ask", "format": "GraphQL", "output_mapping": {"given": "$.data"},
            "task": {"endpoint": "https://api.example.com/", "query": "{ x }"}
        }]}
    })
}

/// The document with one OpenAPI step; `components` and `schema` of the answer as given.
fn openapi(components: &Value, schema: &Value) -> Value {
    let mut document = document();
    document["execution"]["steps"] = json!([{
        "id": "ask", "format": "OpenAPI", "output_mapping": {"given": "$.next.next.name"},
        "task": {
            "openapi": "3.0.3", "info": {"title": "T", "version": "1"},
            "servers": [{"url": "https://api.example.com"}],
            "paths": {"/x": {"get": {"responses": {"200": {
                "description": "OK", "content": {"application/json": {"schema": schema}}
            }}}}},
            "components": components
        }
    }]);
    document
}

#[test]
fn the_documents_that_are_changed_below_are_good() {
    for document in [document(), openapi(&json!({}), &json!({"type": "object"}))] {
        let compilation = compile(document.to_string().as_bytes());
        assert!(compilation.document.is_some(), "{:?}", compilation.diagnostics);
    }
}

#[test]
fn a_hundred_megabytes_are_refused_unread() {
    for source in ["a: ".to_owned() + &"x".repeat(100 << 20), "[".repeat(100 << 20)] {
        refused(source.as_bytes(), "A2S001", MIB / 16);
        let (errors, most) = measure(|| parse_value(source.as_bytes()).unwrap_err());
        assert_eq!(errors[0].code, "A2S001");
        assert!(most <= MIB / 16);
    }
}

#[test]
fn nesting_of_every_kind_is_refused() {
    let depth = (1 << 20) / 2;
    for (source, code) in [
        ("[".repeat(depth), "A2S004"),
        ("[".repeat(depth) + &"]".repeat(depth), "A2S004"),
        ("{a: ".repeat(depth / 4), "A2S004"),
        ("{\"a\":".repeat(depth / 5) + "1" + &"}".repeat(depth / 5), "A2S004"),
        ("- ".repeat(depth), "A2S004"),
        ("? ".repeat(depth), "A2S004"),
        (
            "a:\n".to_owned() + &(1..1_000).map(|n| " ".repeat(n) + "a:\n").collect::<String>(),
            "A2S004",
        ),
    ] {
        let start: String = source.chars().take(12).collect();
        let (compilation, most) = measure(|| compile(source.as_bytes()));
        let codes: Vec<&str> = compilation.diagnostics.iter().map(|d| &*d.code).collect();
        assert!(codes.contains(&code), "{start}: {:?}", compilation.diagnostics);
        assert!(most <= 16 * MIB, "{start}: {} MiB", most / MIB);
    }
}

#[test]
fn alias_bombs_are_refused() {
    // Ten to the power of twelve strings.
    let mut billions = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    // Two to the power of sixty mappings.
    let mut doubled = "a0: &a0 {x: 1}\n".to_owned();
    // A chain that nests ever deeper.
    let mut deep = "a0: &a0 [x]\n".to_owned();
    for level in 1..60 {
        let below = level - 1;
        if level < 12 {
            let items = vec![format!("*a{below}"); 10].join(", ");
            billions.extend([format!("a{level}: &a{level} [{items}]\n")]);
        }
        doubled.extend([format!("a{level}: &a{level} {{x: *a{below}, y: *a{below}}}\n")]);
        deep.extend([format!("a{level}: &a{level} [*a{below}]\n")]);
    }
    deep += "b: [[[[[[*a59]]]]]]\n";
    // A long text again and again, and anchors nested in anchors, each of which is kept.
    let long = format!("a: &a {}\nb: [{}]", "x".repeat(500_000), vec!["*a"; 100_000].join(","));
    let kept: String = (0..60).map(|n| format!("&a{n} [")).collect();
    let kept = kept + &"x,".repeat(300_000) + &"]".repeat(60);
    for source in [billions, doubled, deep, long, kept] {
        refused(source.as_bytes(), "A2S004", 64 * MIB);
    }
}

#[test]
fn nested_anchors_take_bounded_memory() {
    // Legal: each of sixty levels has a name, and each name stands for everything below.
    let open: String = (0..60).map(|n| format!("&a{n} [")).collect();
    let source = open + &"x,".repeat(90_000) + &"]".repeat(60);
    let compilation = compile_within(source.as_bytes(), 768 * MIB);
    assert!(compilation.document.is_none());
}

#[test]
fn what_is_no_text_is_refused() {
    for bytes in [&b"a: \xff"[..], b"\xfe\xff\0a", b"a: \xed\xa0\x80", b"a: \xf0\x9f\x98", b"\x80"]
    {
        refused(bytes, "A2S002", MIB);
    }
    let mut late = vec![b'a'; (1 << 20) - 1];
    late.push(0xff);
    refused(&late, "A2S002", 8 * MIB);
}

#[test]
fn keys_that_stand_twice_are_refused() {
    let json: Vec<String> = (0..40_000).map(|_| "\"a\": 1".to_owned()).collect();
    for source in [format!("{{{}}}", json.join(",")), json.join("\n")] {
        let compilation = compile_within(source.as_bytes(), 64 * MIB);
        let twice = compilation.diagnostics.iter().filter(|d| d.code == "A2S005").count();
        assert!((1..=200).contains(&twice), "{twice} diagnostics");
    }
}

#[test]
fn a_million_mistakes_are_not_a_million_diagnostics() {
    for source in [
        "a: !!x 1\n".repeat(60_000),
        (0..60_000).map(|n| format!("unknown{n}: 1\n")).collect(),
        format!("a2s: 1.0.0\nexecution: {{type: sequence, steps: [{}]}}", "{}, ".repeat(90_000)),
    ] {
        let compilation = compile_within(source.as_bytes(), 256 * MIB);
        let count = compilation.diagnostics.len();
        assert!((1..=2_000).contains(&count), "{count} diagnostics");
    }
}

#[test]
fn references_that_lead_to_themselves_are_refused() {
    // Tasks that name one another.
    for (tasks, name) in [
        (json!({"a": {"$ref": "#/tasks/a"}}), "a"),
        (json!({"a": {"$ref": "#/tasks/b"}, "b": {"$ref": "#/tasks/a"}}), "a"),
        (json!({"a": {"$ref": "#/tasks"}}), "a"),
        (json!({"a": {"$ref": "#"}}), "a"),
    ] {
        let mut cyclic = document();
        cyclic["execution"]["steps"][0]["task"] = json!({"$ref": format!("#/tasks/{name}")});
        cyclic["tasks"] = tasks.clone();
        let compilation = compile_within(cyclic.to_string().as_bytes(), 4 * MIB);
        // One `$ref` is followed; what it leads to has to be a task.
        let told = compilation.diagnostics.iter().filter(|d| d.is_error()).all(|error| {
            error.path.starts_with("tasks") || ["A2S019", "A2S055"].contains(&&*error.code)
        });
        assert!(compilation.document.is_none() && told, "{tasks}: {:?}", compilation.diagnostics);
    }
    // Parameters, bodies and answers of an operation that name one another.
    let around = |kind: &str| format!("#/components/{kind}/a");
    for kind in ["parameters", "requestBodies", "responses"] {
        let components = json!({kind: {"a": {"$ref": format!("#/components/{kind}/b")}, "b": {"$ref": around(kind)}}});
        let mut cyclic = openapi(&components, &json!({}));
        let operation = &mut cyclic["execution"]["steps"][0]["task"]["paths"]["/x"]["get"];
        match kind {
            "parameters" => operation["parameters"] = json!([{"$ref": around(kind)}]),
            "requestBodies" => operation["requestBody"] = json!({"$ref": around(kind)}),
            _ => operation["responses"]["200"] = json!({"$ref": around(kind)}),
        }
        let compilation = compile_within(cyclic.to_string().as_bytes(), 4 * MIB);
        assert!(compilation.document.is_none(), "{kind}");
        let codes: Vec<&str> = compilation.diagnostics.iter().map(|d| &*d.code).collect();
        assert!(codes.contains(&"A2S050"), "{kind}: {codes:?}");
    }
}

#[test]
fn a_shared_task_is_held_once_however_many_steps_point_to_it() {
    let properties = |n: u32| json!({"type": "object", "properties": {format!("p{n}"): {}}});
    let schemas: serde_json::Map<_, _> =
        (0..4_000).map(|n| (format!("S{n}"), properties(n))).collect();
    let all: Vec<Value> = schemas
        .keys()
        .map(|name| json!({ "$ref": format!("#/components/schemas/{name}") }))
        .collect();
    let mut shared = openapi(&json!({"schemas": schemas}), &json!({"anyOf": all}));
    let steps = shared["execution"]["steps"].take();
    shared["tasks"] = json!({"large": steps[0]["task"]});
    let with_steps = |count: u32| {
        let step = |n| {
            json!({"id": format!("s{n}"), "format": "OpenAPI", "task": {"$ref": "#/tasks/large"},
                "output_mapping": {format!("o{n}"): "$"}})
        };
        let mut document = shared.clone();
        document["execution"]["steps"] = (0..count).map(step).collect();
        let source = document.to_string();
        let (compilation, most) = measure(|| compile(source.as_bytes()));
        assert!(compilation.document.is_some(), "{:?}", compilation.diagnostics);
        most
    };
    let (one, all) = (with_steps(1), with_steps(200));
    assert!(all < one + one / 2, "{} MiB for one step, {} for all", one / MIB, all / MIB);
}

#[test]
fn recursive_schemas_are_legal_and_read_in_bounded_memory() {
    let node = json!({"type": "object", "properties": {
        "name": {"type": "string"},
        "next": {"$ref": "#/components/schemas/Node"},
        "children": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}
    }});
    let components = json!({"schemas": {"Node": node}});
    let schema = json!({"$ref": "#/components/schemas/Node"});
    let compilation = compile_within(openapi(&components, &schema).to_string().as_bytes(), 8 * MIB);
    assert!(compilation.document.is_some(), "{:?}", compilation.diagnostics);

    // Schemas that double at each step: what they stand for must not be written out.
    let names: Vec<String> = (0..40).map(|n| format!("S{n}")).collect();
    let doubled = |combine: &dyn Fn(Value) -> Value| {
        let schemas = names.iter().zip(names.iter().cycle().skip(1)).map(|(name, next)| {
            let next = json!({ "$ref": format!("#/components/schemas/{next}") });
            (name.clone(), combine(next))
        });
        json!({ "schemas": schemas.collect::<serde_json::Map<_, _>>() })
    };
    let combinations: [&dyn Fn(Value) -> Value; 4] = [
        &|next| json!({"allOf": [next, next]}),
        &|next| json!({"oneOf": [next, next], "anyOf": [next, next]}),
        &|next| json!({"properties": {"next": next, "name": next}, "additionalProperties": next}),
        &|next| next,
    ];
    for combine in combinations {
        let document = openapi(&doubled(combine), &json!({"$ref": "#/components/schemas/S0"}));
        for query in ["$.next.next.name", "$..name", "$.next[*].name", "$[?@.name].next"] {
            let mut document = document.clone();
            document["execution"]["steps"][0]["output_mapping"]["given"] = json!(query);
            let source = document.to_string();
            let (compilation, most) = measure(|| compile(source.as_bytes()));
            assert!(most <= 32 * MIB, "{query}: {} MiB, {}", most / MIB, combine(json!("S")));
            // The graph of names is legal; a `$ref` to a `$ref` without end is not.
            if let Some(document) = compilation.document {
                let (_, most) = measure(|| document.interface());
                assert!(most <= 32 * MIB, "{query}: interface of {} MiB", most / MIB);
            }
        }
    }
}

#[test]
fn expressions_of_any_length_and_depth_are_refused() {
    let large = 1 << 20;
    for text in [
        "(".repeat(large),
        "[".repeat(large),
        "!".repeat(large),
        "-".repeat(large),
        "${a}+".repeat(large / 5),
    ] {
        let (outcome, most) = measure(|| Condition::parse(&text));
        assert!(outcome.is_err() && most <= 4 * MIB);
    }
    for text in [
        "$".to_owned() + &"[".repeat(large),
        "$[?".to_owned() + &"(".repeat(large),
        "$[?".to_owned() + &"!".repeat(large),
        "$".to_owned() + &"..a".repeat(large / 3),
        "$[?@".to_owned() + &"[?@".repeat(large / 3),
        "$.".to_owned() + &"a".repeat(large),
    ] {
        let (outcome, most) = measure(|| JsonPathQuery::parse(&text));
        assert!(outcome.is_err() && most <= 4 * MIB);
    }
    // The deepest and longest that are read, on a thread with a small stack.
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let read = small.spawn(|| {
        for depth in 0..20 {
            let (open, close) = ("(".repeat(depth), ")".repeat(depth));
            let condition = Condition::parse(&format!("{open}${{a}}{close} == 1"));
            assert_eq!(condition.is_ok(), depth <= 8, "{depth}");
            if let Ok(condition) = condition {
                assert_eq!(condition.evaluate(json!({"a": 1}).as_object().unwrap()), Ok(true));
            }
            let query = JsonPathQuery::parse(&format!("$[?{open}@.a{close}]"));
            assert_eq!(query.is_ok(), depth < 16, "{depth}");
        }
        let chain = vec!["${a}"; 33].join("+") + " == 33";
        assert!(Condition::parse(&chain).is_ok());
    });
    read.unwrap().join().unwrap();
}

#[test]
fn queries_in_a_document_are_bounded_like_queries() {
    let mut deep = document();
    deep["execution"]["steps"][0]["output_mapping"]["given"] =
        json!("$".to_owned() + &"[".repeat(500_000));
    refused(deep.to_string().as_bytes(), "A2S042", 24 * MIB);
    let mut deep = document();
    deep["output"] = json!("${".to_owned() + &"a.".repeat(250_000) + "a}");
    let compilation = compile_within(deep.to_string().as_bytes(), 64 * MIB);
    let worded = compilation.diagnostics.iter().all(|d| d.message.len() < 4_000);
    assert!(worded, "a message repeats a text of half a megabyte");
}

#[test]
fn graphql_of_any_depth_is_refused() {
    for query in [
        "{ a ".repeat(100_000),
        "{ a ".repeat(100_000) + &"}".repeat(100_000),
        "query q($a: ".to_owned() + &"[".repeat(500_000),
        "{ a(b: ".to_owned() + &"[".repeat(500_000),
        "{ a(b: ".to_owned() + &"{c: ".repeat(100_000),
        "{ ".to_owned() + &"... ".repeat(100_000),
        "{ a }".repeat(100_000),
        "{ ".to_owned() + &"a ".repeat(250_000) + "}",
    ] {
        let mut deep = document();
        deep["execution"]["steps"][0]["task"]["query"] = json!(query);
        refused(deep.to_string().as_bytes(), "A2S051", 24 * MIB);
        // Within the bound of bytes the parser has bounds of its own.
        let short: String = query.chars().take(60_000).collect();
        deep["execution"]["steps"][0]["task"]["query"] = json!(short);
        refused(deep.to_string().as_bytes(), "A2S051", 24 * MIB);
    }
}

#[test]
fn the_largest_documents_that_are_read_take_bounded_memory() {
    let step = |n: usize| {
        let mut step = document()["execution"]["steps"][0].clone();
        step["id"] = json!(format!("step{n}"));
        step["output_mapping"] = json!({ format!("given{n}"): "$.data" });
        step["x-note"] = json!("x".repeat(4_500));
        step
    };
    let mut large = document();
    large["execution"]["steps"] = (0..200).map(step).collect();
    let source = large.to_string();
    assert!((900_000..1 << 20).contains(&source.len()), "{}", source.len());
    let compilation = compile_within(source.as_bytes(), 48 * MIB);
    assert!(compilation.document.is_some(), "{:?}", compilation.diagnostics);
}

#[test]
fn an_answer_that_is_made_to_be_expensive_is_not_evaluated() {
    let evaluate = |query: &str, answer: &Value| {
        let query = JsonPathQuery::parse(query).unwrap();
        let (outcome, most) = measure(|| query.evaluate(answer));
        assert!(most <= 256 * MIB, "{}: {} MiB", query.source(), most / MIB);
        outcome
    };
    let too_much = |outcome| matches!(outcome, Err(QueryError::TooExpensive { .. }));
    let long_key = json!({ "k".repeat(1 << 20): vec![0; 4_000] });
    assert!(too_much(evaluate("$.*[*]", &long_key)));
    let mut comb = json!(1);
    for _ in 0..100 {
        comb = json!({"a": comb, "b": "x".repeat(1_000)});
    }
    let combs = json!(vec![comb; 40]);
    assert!(too_much(evaluate("$..*..*", &combs)));
    assert!(evaluate("$..b", &combs).is_ok());
    let text = "x".repeat(1 << 20);
    let condition = Condition::parse("${list}.map(x, ${text} + ${text}).size() > 0").unwrap();
    let variables = json!({"text": text, "list": vec![1; 10_000]});
    let (outcome, most) = measure(|| condition.evaluate(variables.as_object().unwrap()));
    assert!(outcome.is_err() && most <= 16 * MIB);
}

/// The answer to `source` as JSON, and the most memory that compiling took, in bytes.
fn answer(source: &[u8]) -> (String, u64) {
    let (compilation, most) = measure(|| compile(source));
    assert!(compilation.document.is_none(), "it has errors");
    (serde_json::to_string(&compilation.diagnostics).unwrap(), most)
}

#[test]
fn the_answer_to_a_document_full_of_errors_is_small() {
    let members = |n: usize, value: &str| {
        (0..n).map(|k| format!("\"k{k}\": \"{value}\"")).collect::<Vec<_>>().join(", ")
    };
    let header = "a2s: 1.0.0\nname: Many\ndescription: Many errors\ndomains: [a.example]\nversion: 1.0.0\nauthors: [{name: A}]\nexecution: {type: sequence, steps: []}\n";
    let long = |letters: usize, n: usize| {
        let body = members(n, "${");
        format!("{{\"output\": {{\"{}\": {{{body}}}}}}}", "L".repeat(letters))
    };
    let nested = |letters: usize, n: usize| {
        let key = "L".repeat(letters);
        let open = format!("{{\"{key}\": ").repeat(50);
        format!("{header}output: {open}{{{}}}{}", members(n, "${"), "}".repeat(50))
    };
    let fields: String = (0..49_000).map(|k| format!("field{k}: 1\n")).collect();
    let twice = "name: x\n".repeat(40_000);
    let tags = format!("a: [{}]", "!x 1,".repeat(80_000));
    for (title, source) in [
        ("a long key over many templates", long(200_000, 4_000)),
        ("the longest keys over many templates", nested(1_000, 30_000)),
        ("many unknown fields", format!("{header}{fields}")),
        ("one key many times", twice),
        ("many tags", tags),
        ("the most templates", format!("{header}output: {{{}}}", members(45_000, "${"))),
    ] {
        assert!(source.len() <= 1 << 20, "{title}: {}", source.len());
        let (answer, most) = answer(source.as_bytes());
        assert!(answer.len() <= 256 << 10, "{title}: {} bytes", answer.len());
        assert!(most <= 64 * MIB, "{title}: {} MiB", most / MIB);
    }
}

#[test]
fn the_most_values_of_a_document_take_bounded_memory() {
    let numbers = "1,".repeat(99_000);
    let pairs = (0..49_000).map(|k| format!("\"k{k}\":{{}}")).collect::<Vec<_>>().join(",");
    let words = "\"w\",".repeat(99_000);
    let mut anchored = "[1]".to_owned();
    for level in 0..40 {
        anchored = format!("&a{level} [{anchored}, {}]", "1,".repeat(2_000));
    }
    let aliases = (0..40).map(|level| format!("*a{level}")).collect::<Vec<_>>().join(", ");
    let example = |value: &str| {
        let mut document = document();
        document["x-own"] = json!("HERE");
        document.to_string().replace("\"HERE\"", value)
    };
    for (title, source) in [
        ("numbers", example(&format!("[{numbers}1]"))),
        ("words", example(&format!("[{words}1]"))),
        ("members", example(&format!("{{{pairs}}}"))),
        ("anchors in anchors", format!("x-own: {anchored}")),
        ("anchors in anchors and their aliases", format!("x-own: {anchored}\nx-all: [{aliases}]")),
    ] {
        assert!(source.len() <= 1 << 20, "{title}: {}", source.len());
        let (_, most) = measure(|| compile(source.as_bytes()));
        assert!(most <= 64 * MIB, "{title}: {} MiB", most / MIB);
    }
}

/// `source` with its checksum filled in.
fn sealed(mut document: Value) -> Vec<u8> {
    let digest = compile(document.to_string().as_bytes()).digest.expect("it has a checksum");
    document["checksum"] = json!(digest);
    document.to_string().into_bytes()
}

/// Codes and severities of what is found with one key.
fn key_findings(compilation: &Compilation) -> Vec<bool> {
    let keys = compilation.diagnostics.iter().filter(|found| found.message.contains("a key has"));
    keys.inspect(|found| assert_eq!(found.code, "A2S004")).map(|found| found.is_error()).collect()
}

#[test]
fn long_keys_are_refused_only_in_new_versions() {
    // A path of an operation may have 4,096 bytes.
    let path = format!("/{}", "p".repeat(2_000));
    let mut long = openapi(&json!({}), &json!({"type": "object"}));
    let paths = &mut long["execution"]["steps"][0]["task"]["paths"];
    let item = paths["/x"].take();
    *paths = json!({ path: item });
    let source = sealed(long);
    let read = compile_with_checksum(&source);
    assert!(read.document.is_some(), "{:?}", read.diagnostics);
    assert_eq!(key_findings(&read), [] as [bool; 0]);
    let new = compile_to_publish(&source);
    assert_eq!(key_findings(&new), [true]);
    assert!(new.document.is_none() && new.digest == read.digest);
    let draft = compile(&source);
    assert_eq!(key_findings(&draft), [false]);
    assert!(draft.document.is_some());

    // The same in YAML, where a key of this length has a `? `.
    let yaml = format!("x-own:\n  ? {}\n  : 1\n", "k".repeat(1_025));
    assert_eq!(key_findings(&compile_to_publish(yaml.as_bytes())), [true]);
    assert_eq!(key_findings(&compile_with_checksum(yaml.as_bytes())), [] as [bool; 0]);
    let short = format!("x-own:\n  ? {}\n  : 1\n", "k".repeat(1_024));
    assert_eq!(key_findings(&compile_to_publish(short.as_bytes())), [] as [bool; 0]);
}

#[test]
fn long_keys_of_a_document_that_is_run_take_bounded_memory() {
    let members =
        |n: usize| (0..n).map(|k| format!("\"k{k}\": \"${{\"")).collect::<Vec<_>>().join(", ");
    let inner = format!("{{{}}}", members(30_000));
    let one = format!("{{\"output\": {{\"{}\": {inner}}}}}", "L".repeat(400_000));
    let key = "L".repeat(8_000);
    let nested =
        format!("{{\"output\": {}{inner}{}}}", format!("{{\"{key}\": ").repeat(50), "}".repeat(50));
    for source in [one, nested] {
        assert!(source.len() <= 1 << 20, "{}", source.len());
        let (compilation, most) = measure(|| compile_with_checksum(source.as_bytes()));
        let answer = serde_json::to_vec(&compilation.diagnostics).unwrap();
        assert!(compilation.document.is_none() && answer.len() <= 256 << 10, "{}", answer.len());
        assert!(most <= 64 * MIB, "{} MiB", most / MIB);
    }
}

#[test]
fn anchors_that_no_alias_names_cost_nothing() {
    let mut anchored = "[1]".to_owned();
    for level in 0..40 {
        anchored = format!("&a{level} [{anchored}, {}]", "1,".repeat(2_000));
    }
    // 80,000 values, which 40 copies would make 1.6 million.
    let unused = parse_value(format!("x-own: {anchored}").as_bytes());
    assert!(unused.is_ok(), "{:?}", unused.unwrap_err());
    let used = parse_value(format!("x-own: {anchored}\nx-again: *a0").as_bytes());
    assert_eq!(used.unwrap()["x-again"][0], json!([1]));
    let all = parse_value(format!("x-own: {anchored}\nx-again: *a39").as_bytes());
    assert_eq!(all.unwrap_err()[0].code, "A2S004");
}
