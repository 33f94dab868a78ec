use a2s::compile_with_checksum;
use serde_json::json;

use super::*;

const SCHEMA: &str = r#"
"A number of a thing."
scalar Number
enum Color { RED GREEN }
input Filter { color: Color = RED, words: [String!] }
type Thing { id: ID!, title: String, parts(first: Int = 5): [Thing!]! }
type Query {
  "Gets one thing."
  thing("Number of the thing" id: ID!, color: Color): Thing
  things(filter: Filter, token: String): [Thing!]!
  me: Thing!
}
type Mutation { rename(id: ID!, title: String!): Thing! }
type Subscription { renamed: Thing! }
"#;

fn options() -> GraphqlOptions {
    let endpoint = Url::parse("https://api.things.example/graphql").unwrap();
    GraphqlOptions { endpoint, prefix: None, author: Some("Jane".to_owned()) }
}

/// The documents by name, as values, all of which compile.
#[track_caller]
fn import(schema: &str, operations: &str) -> Vec<Value> {
    let imported = import_graphql(schema, Some(operations), &options()).unwrap();
    assert_eq!(imported.refused, []);
    let value = |document: &super::super::ImportedDocument| {
        let compilation = compile_with_checksum(document.text.as_bytes());
        assert!(compilation.document.is_some(), "{:?}", compilation.diagnostics);
        a2s::parse_value(document.text.as_bytes()).unwrap()
    };
    imported.documents.iter().map(value).collect()
}

const OPERATIONS: &str = "\
# Finds a thing,
# and its parts.
query findThing($id: ID!, $color: Color = GREEN, $first: Int) {
  thing(id: $id, color: $color) { id title parts(first: $first) { ...Part } }
}

fragment Part on Thing { id ...Title }
fragment Title on Thing { title }
fragment Spare on Thing { id }

query many($filter: Filter, $token: String) { things(filter: $filter, token: $token) { ...Spare } me { id } }

mutation Rename($id: ID!, $title: String!) { rename(id: $id, title: $title) { id title } }
";

#[test]
fn variables_become_parameters_and_fields_become_outputs() {
    let documents = import(SCHEMA, OPERATIONS);
    let names: Vec<_> = documents.iter().map(|document| &document["name"]).collect();
    assert_eq!(names, ["FindThing", "Many", "Rename"]);

    let find = &documents[0];
    assert_eq!(find["description"], "Finds a thing, and its parts");
    assert_eq!(find["domains"], json!(["api.things.example"]));
    assert_eq!(find["authors"], json!([{"name": "Jane"}]));
    assert_eq!(
        find["parameters"],
        json!([
            {"name": "id", "description": "Number of the thing"},
            {"name": "color", "type": "string", "default": "GREEN", "enum": ["RED", "GREEN"]},
            {"name": "first", "type": "integer", "required": false},
        ])
    );
    let step = &find["execution"]["steps"][0];
    let variables = json!({"id": "${id}", "color": "${color}", "first": "${first}"});
    assert_eq!(step["input_mapping"], json!({ "variables": variables }));
    assert_eq!(
        step["output_mapping"],
        json!({
            "result_id": {"path": "$.data.thing.id", "optional": true},
            "title": {"path": "$.data.thing.title", "optional": true},
            "parts": {"path": "$.data.thing.parts", "optional": true},
        })
    );
    let query = step["task"]["query"].as_str().unwrap();
    assert!(query.starts_with("query findThing("));
    assert!(query.contains("fragment Part") && query.contains("fragment Title"));
    assert!(!query.contains("Spare") && !query.contains("Rename"));

    let many = &documents[1];
    assert_eq!(
        many["parameters"],
        json!([
            {"name": "filter", "type": "object", "required": false},
            {"name": "token", "type": "string", "required": false, "secret": true},
        ])
    );
    let outputs = &many["execution"]["steps"][0]["output_mapping"];
    assert_eq!(*outputs, json!({"things": "$.data.things", "me": "$.data.me"}));

    // Everything that is asked for is surely there.
    let outputs = &documents[2]["execution"]["steps"][0]["output_mapping"];
    let expected = json!({"result_id": "$.data.rename.id", "result_title": "$.data.rename.title"});
    assert_eq!(*outputs, expected);
}

#[test]
fn an_introspection_is_as_good_as_the_schema() {
    let schema = Schema::parse_and_validate(SCHEMA, "schema").unwrap();
    let types: Vec<Value> = schema
        .types
        .iter()
        .filter(|(name, _)| !name.starts_with("__"))
        .map(|(name, kind)| introspect(name, kind))
        .collect();
    let answer = json!({"data": {"__schema": {
        "queryType": {"name": "Query"},
        "mutationType": {"name": "Mutation"},
        "subscriptionType": {"name": "Subscription"},
        "types": types,
    }}});
    assert_eq!(import(&answer.to_string(), OPERATIONS), import(SCHEMA, OPERATIONS));
}

#[test]
fn duplicate_key_of_an_introspection_is_reported() {
    let text = r#"{"data": {"__schema": {"queryType": {"name": "Query"}, "types": [
        {"kind": "OBJECT", "name": "Query", "fields": [{"name": "a", "type": {"name": "Int"}}],
         "fields": [{"name": "b", "type": {"name": "Int"}}]}
    ]}}}"#;
    let imported = import_graphql(text, None, &options()).unwrap();
    assert_eq!(imported.documents.len(), 1);
    let [remark] = imported.remarks.as_slice() else { panic!("{:?}", imported.remarks) };
    assert_eq!(remark.place, "data.__schema.types[0].fields");
    assert!(remark.reason.contains("line 3, column 10"), "{remark:?}");
}

#[test]
fn union_selects_the_fields_of_its_members() {
    let schema = "type Query { find: [Found!] hit: Hit }\n\
        union Found = User | Post | Team\n\
        union Hit = Post\n\
        type User { id: ID! name: String posts(first: Int!): Int team: Team }\n\
        type Post { id: ID! name: String! user_name: Int }\n\
        type Team { parts(first: Int!): Int }";
    let imported = import_graphql(schema, None, &options()).unwrap();
    assert_eq!(imported.refused, []);
    let [find, hit] = imported.documents.as_slice() else { panic!("{imported:?}") };
    let query = |document: &super::super::ImportedDocument| {
        let content = a2s::parse_value(document.text.as_bytes()).unwrap();
        content["execution"]["steps"][0]["task"].clone()
    };
    let task = query(find);
    let selected =
        "find { __typename ... on User { id name } ... on Post { id Post_name: name user_name } }";
    assert!(task["query"].as_str().unwrap().contains(selected), "{task}");
    assert!(
        task["schema"].as_str().unwrap().contains("union Found = User | Post | Team"),
        "{task}"
    );
    assert!(query(hit)["query"].as_str().unwrap().contains("... on Post { id name user_name }"));
    assert_eq!(find.remarks, [], "the whole response has types");
}

#[test]
fn selection_without_fields_of_its_type_is_reported() {
    let schema = "type Query { viewer: User any: Any box: Box plain: Plain lone: Lone! }\n\
        union Any = Lone\n\
        interface Node { old: Int @deprecated }\n\
        type Lone { parts(first: Int!): Int }\n\
        type Plain { id: ID }\n\
        type Box { boxes: [Box!] inner: Box }\n\
        type User { name: String lone: Lone node: Node plain: Plain any: Any }";
    let imported = import_graphql(schema, None, &options()).unwrap();
    let remarks = |name: &str| -> Vec<(&str, &str)> {
        let document = imported.documents.iter().find(|document| document.name == name).unwrap();
        let remarks = document.remarks.iter();
        remarks.map(|remark| (remark.place.as_str(), remark.reason.as_str())).collect()
    };
    let reason = |why: &str| {
        format!(
            "the operation selects only `__typename` there, because {why}; to select more, write the operation and import it with `--operation FILE`"
        )
    };
    let arguments = reason("each field of its type requires arguments or is deprecated");
    let member = reason("no member of the union has a scalar field that needs no arguments");
    let scalar = reason("its type has no scalar field that needs no arguments");
    let viewer =
        [("viewer.any", &*member), ("viewer.lone", &arguments), ("viewer.node", &arguments)];
    assert_eq!(remarks("Viewer"), viewer);
    assert_eq!(remarks("Any"), [("any", &*member)]);
    assert_eq!(remarks("Box"), [("box", &*scalar)]);
    assert_eq!(remarks("Lone"), [("lone", &*arguments)]);
    assert_eq!(remarks("Plain"), []);
}

#[test]
fn reported_selections_are_bounded() {
    let fields: String = (0..9).map(|n| format!("f{n}: Lone ")).collect();
    let schema = format!(
        "type Query {{ many: Many }} type Many {{ {fields} }} type Lone {{ a(b: Int!): Int }}"
    );
    let imported = import_graphql(&schema, None, &options()).unwrap();
    let remarks = &imported.documents[0].remarks;
    assert_eq!(remarks.len(), 6, "{remarks:?}");
    let is_count = |remark: &ImportWarning| remark.reason.ends_with("of 4 more fields");
    assert!(remarks.iter().any(is_count), "{remarks:?}");
}

/// Two unions with the same first member gave a part of the schema with a type that was defined twice.
#[test]
fn members_that_no_operation_selects_are_defined_once() {
    let schema = "type Query { a: One b: Two n: Node }\n\
        union One = Thing | Other\n\
        union Two = Thing\n\
        type Thing implements Node { id: ID owner: User }\n\
        type Other { id: ID }\n\
        interface Node { id: ID owner: Actor }\n\
        interface Actor { login: String }\n\
        type User implements Actor { login: String }";
    let operations = "query Both { a { __typename } b { __typename } }\n\
        query Covariant { n { owner { login } ... on Thing { id } } }";
    let imported = import_graphql(schema, Some(operations), &options()).unwrap();
    for document in &imported.documents {
        assert!(
            document.text.contains("union") || document.text.contains("type User"),
            "{document:?}"
        );
        assert!(!document.remarks.iter().any(|it| it.place == "schema"), "{document:?}");
        assert!(document.text.contains("schema:"), "{}", document.text);
    }
}

#[test]
fn schema_of_a_document_that_is_too_large_is_reported() {
    let fields: String = (0..6_000).map(|n| format!("field_with_a_long_name_{n}: Int ")).collect();
    let schema = format!("type Query {{ find(with: Filter): Int }}\ninput Filter {{ {fields} }}");
    let imported = import_graphql(&schema, None, &options()).unwrap();
    let [document] = imported.documents.as_slice() else { panic!("{imported:?}") };
    let is_meant =
        |it: &ImportWarning| it.place == "schema" && it.reason.contains("more than 100000");
    assert!(document.remarks.iter().any(is_meant), "{:?}", document.remarks);
}

/// The limit of tokens for operations of the user does not hold for those that the import writes.
#[test]
fn large_schema_is_imported_as_a_whole() {
    let arguments: String = (0..80).map(|n| format!("a{n}: Int ")).collect();
    let roots: String = (0..300).map(|n| format!("f{n}({arguments}): Int ")).collect();
    let schema = format!("type Query {{ {roots} }}");
    let schema = Schema::parse_and_validate(&schema, "schema").unwrap();
    let written = operations::write_operations(&schema).text;
    assert!(read_operations(&schema, &written, MAX_TOKENS).is_err());
    let read = stacker::grow(STACK, || read_operations(&schema, &written, MAX_SCHEMA_TOKENS));
    assert_eq!(read.unwrap().operations.len(), 300);
}

#[test]
fn introspection_has_several_forms() {
    let schema = json!({"queryType": {"name": "Query"}, "types": [
        {"kind": "OBJECT", "name": "Query", "fields": [
            {"name": "find", "type": {"name": "Thing"}, "args": [{"name": "by", "type": {"name": "By"}}]},
        ]},
        {"kind": "OBJECT", "name": "Thing", "fields": [
            {"name": "old", "type": {"name": "Int"}, "isDeprecated": true},
            {"name": "new", "type": {"name": "Int"}, "isDeprecated": false},
        ]},
        {"kind": "INPUT_OBJECT", "name": "By", "isOneOf": true, "inputFields": [
            {"name": "id", "type": {"name": "ID"}}, {"name": "name", "type": {"name": "String"}},
        ]},
    ]});
    let data = json!({ "__schema": schema });
    for form in [
        schema.to_string(),
        data.to_string(),
        json!({ "data": data }).to_string(),
        json!([{ "data": data, "extensions": {} }]).to_string(),
        format!("\u{feff}{}", json!({ "data": data })),
        format!("\n {data}"),
    ] {
        let imported = import_graphql(&form, None, &options()).unwrap();
        let text = &imported.documents[0].text;
        assert!(text.contains("find(by: $by) { new }"), "{text}");
        assert!(text.contains("input By @oneOf"), "{text}");
    }
}

/// A type as a service answers about it.
fn introspect(name: &Name, kind: &ExtendedType) -> Value {
    fn type_of(ty: &Type) -> Value {
        let wrap = |kind: &str, inner: Value| json!({ "kind": kind, "ofType": inner });
        match ty {
            Type::Named(name) => json!({ "kind": "SCALAR", "name": name.as_str() }),
            Type::NonNullNamed(name) => wrap("NON_NULL", json!({ "name": name.as_str() })),
            Type::List(inner) => wrap("LIST", type_of(inner)),
            Type::NonNullList(inner) => wrap("NON_NULL", wrap("LIST", type_of(inner))),
        }
    }
    let argument = |argument: &apollo_compiler::ast::InputValueDefinition| {
        json!({
            "name": argument.name.as_str(),
            "description": argument.description.as_deref(),
            "type": type_of(&argument.ty),
            "defaultValue": argument.default_value.as_ref().map(ToString::to_string),
        })
    };
    let description = kind.description().map(|text| text.as_str());
    match kind {
        ExtendedType::Scalar(_) => {
            json!({"kind": "SCALAR", "name": name.as_str(), "description": description})
        }
        ExtendedType::Enum(choices) => {
            let values: Vec<_> =
                choices.values.keys().map(|key| json!({ "name": key.as_str() })).collect();
            json!({"kind": "ENUM", "name": name.as_str(), "enumValues": values})
        }
        ExtendedType::InputObject(input) => {
            let fields: Vec<_> = input.fields.values().map(|field| argument(field)).collect();
            json!({"kind": "INPUT_OBJECT", "name": name.as_str(), "inputFields": fields})
        }
        ExtendedType::Object(object) => {
            let field = |field: &apollo_compiler::schema::FieldDefinition| {
                json!({
                    "name": field.name.as_str(),
                    "description": field.description.as_deref(),
                    "args": field.arguments.iter().map(|a| argument(a)).collect::<Vec<_>>(),
                    "type": type_of(&field.ty),
                })
            };
            let fields: Vec<_> = object.fields.values().map(|f| field(f)).collect();
            json!({"kind": "OBJECT", "name": name.as_str(), "fields": fields, "interfaces": []})
        }
        ExtendedType::Interface(_) | ExtendedType::Union(_) => panic!("the schema has none"),
    }
}

#[test]
fn what_is_not_valid_is_refused_with_its_place() {
    let refuse = |schema: &str, operations: &str| {
        import_graphql(schema, Some(operations), &options()).unwrap_err().message
    };
    let message = refuse(SCHEMA, "query a { nothing }");
    assert!(message.contains("line 1, column 11") && message.contains("`nothing`"), "{message}");
    assert!(refuse("type Query {", "query a { b }").contains("the schema is not valid"));
    assert!(refuse("{\"data\": {}}", "query a { b }").contains("`__schema`"));
    assert!(refuse(SCHEMA, "fragment A on Thing { id }").contains("not valid"));
    assert!(refuse(SCHEMA, "").contains("not valid"));
    let deep = format!("query a {{ me {} id {} }}", "{ parts ".repeat(500), "}".repeat(500));
    assert!(refuse(SCHEMA, &deep).contains("not valid"));
    for endpoint in ["ftp://x.example", "https://[::1]/graphql", "https://x.example/?q"] {
        let endpoint = Url::parse(endpoint).unwrap();
        let options = GraphqlOptions { endpoint, ..options() };
        assert!(import_graphql(SCHEMA, Some(OPERATIONS), &options).is_err());
    }
}

#[test]
fn a_subscription_is_refused_and_the_rest_is_imported() {
    let operations = "subscription S { renamed { id } }\nquery Q { me { id } }";
    let imported = import_graphql(SCHEMA, Some(operations), &options()).unwrap();
    assert_eq!(imported.refused.len(), 1);
    assert!(imported.refused[0].reason.contains("subscription"));
    assert_eq!(imported.documents.len(), 1);
}

#[test]
fn a_definition_that_stands_twice_is_told() {
    let schema = SCHEMA.replace("me: Thing!", "me: Thing!\n me: Thing!");
    let imported = import_graphql(&schema, Some("query Q { me { id } }"), &options()).unwrap();
    let remarks = &imported.documents[0].remarks;
    assert!(remarks[0].reason.contains("duplicate"), "{remarks:?}");
}

#[test]
fn without_operations_each_field_at_the_top_is_one() {
    let imported = import_graphql(SCHEMA, None, &options()).unwrap();
    assert_eq!(imported.refused, []);
    let names: Vec<_> = imported.documents.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["Thing", "Things", "Me", "Rename"]);
    let content =
        |index: usize| a2s::parse_value(imported.documents[index].text.as_bytes()).unwrap();
    let task = &content(1)["execution"]["steps"][0]["task"];
    let query = task["query"].as_str().unwrap();
    assert!(query.contains("things(filter: $filter, token: $token) { id title }"), "{query}");
    // The part of the schema that it needs is with it, so that its inputs are known.
    let schema = task["schema"].as_str().unwrap();
    assert!(schema.contains("input Filter {") && !schema.contains("rename"), "{schema}");
    assert_eq!(task["partial_data"], Value::Null);
    assert_eq!(content(2)["execution"]["steps"][0]["task"]["partial_data"], json!(true));
    let text = imported.documents[1].text.as_bytes();
    let document = compile_with_checksum(text).document.unwrap();
    let filter = document.interface().inputs.iter().find(|field| field.name == "filter").unwrap();
    assert_eq!(filter.schema["properties"]["color"]["enum"][0], "RED");
    assert_eq!(document.interface().outputs[0].schema["type"], "array");
}

#[test]
fn an_id_is_a_text_or_a_number() {
    let document = &import(SCHEMA, "query Q($id: ID!) { thing(id: $id) { id } }")[0];
    assert_eq!(
        document["parameters"][0],
        json!({"name": "id", "description": "Number of the thing"})
    );
    let text =
        import_graphql(SCHEMA, Some("query Q($id: ID!) { thing(id: $id) { id } }"), &options());
    let text = text.unwrap().documents.remove(0).text;
    let document = compile_with_checksum(text.as_bytes()).document.unwrap();
    assert_eq!(document.interface().inputs[0].schema["type"], json!(["string", "integer"]));
}
