//! The style table of the OpenAPI specification, and what it leaves open.

use a2s::{HttpMethod, InputLocation, Task};
use indexmap::IndexMap;
use percent_encoding::percent_decode_str;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::request::test_fixtures::{operation, parameter, prepare};

fn styled(style: ParameterStyle, explode: bool) -> ValueStyle {
    ValueStyle { style, explode, allow_reserved: false }
}

/// The values of the style table of the OpenAPI specification, with one that needs encoding.
fn values() -> [Value; 4] {
    [
        json!(""),
        json!("blue"),
        json!(["blue", "bl,ack", "brown"]),
        json!({"R": 100, "G&": 200, "B": 150}),
    ]
}

#[track_caller]
fn check_path(style: ParameterStyle, explode: bool, expected: [&str; 4]) {
    let written = values().map(|value| {
        write_path("color", StyledValue::from_value(&value).unwrap(), styled(style, explode))
            .unwrap()
    });
    assert_eq!(written, expected);
}

fn query(value: &Value, style: ValueStyle, escape: EscapeMode) -> String {
    let Ok(pairs) = write_query("color", value, style, escape) else {
        return "refused".to_owned();
    };
    pairs.into_iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join("&")
}

#[track_caller]
fn check_query(style: ParameterStyle, explode: bool, expected: [&str; 4]) {
    let written = values().map(|value| query(&value, styled(style, explode), EscapeMode::All));
    assert_eq!(written, expected);
}

/// What is sent for a parameter `color` that is empty, a text, an array and an object.
#[track_caller]
fn check_row(place: &str, style: ParameterStyle, explode: bool, expected: [&str; 4]) {
    let place: InputLocation = format!("{place}.color").parse().unwrap();
    let sent = [
        json!(""),
        json!("blue"),
        json!(["blue", "black", "brown"]),
        json!({"R": 100, "G": 200, "B": 150}),
    ]
    .map(|value| {
        let mut operation = operation(HttpMethod::Get, "https://api.example", "/", &[]);
        let mut declared = parameter(&place).unwrap();
        declared.style = styled(style, explode);
        if matches!(place, InputLocation::Path(_)) {
            operation.path = "/{color}".to_owned();
        }
        operation.parameters = vec![declared];
        let task = Task::OpenApi(Box::new(operation));
        let request = match prepare(&task, &IndexMap::from([(place.clone(), value)])) {
            Ok(request) => request,
            Err(refused) => {
                let refused = refused.to_string();
                return refused.rsplit(": ").next().unwrap().to_owned();
            }
        };
        let header = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
        match place {
            InputLocation::Path(_) => request.url().path()[1..].to_owned(),
            InputLocation::Query(_) => request.url().query().unwrap().to_owned(),
            InputLocation::Header(_) => header("color"),
            _ => header("cookie"),
        }
    });
    assert_eq!(sent, expected, "{style:?} {explode}");
}

/// OpenAPI 3.0.4 and 3.1.1, "Style Examples". Their column of what is undefined holds what RFC 6570
/// writes for an empty text; what has no value at all is not sent, see the tests of parameters.
#[test]
fn each_cell_of_the_table_is_sent_as_it_stands() {
    let path = |style, explode, expected| check_row("pathParameters", style, explode, expected);
    let list = ";color=blue,black,brown";
    let object = ";color=R,100,G,200,B,150";
    path(ParameterStyle::Matrix, false, [";color", ";color=blue", list, object]);
    let list = ";color=blue;color=black;color=brown";
    path(ParameterStyle::Matrix, true, [";color", ";color=blue", list, ";R=100;G=200;B=150"]);
    // These two cells would not come through an address.
    let dot = "`.` and `..` would change the path";
    let nothing = "an empty segment would change the path";
    path(ParameterStyle::Label, false, [dot, ".blue", ".blue,black,brown", ".R,100,G,200,B,150"]);
    path(ParameterStyle::Label, true, [dot, ".blue", ".blue.black.brown", ".R=100.G=200.B=150"]);
    let simple = ["blue", "blue,black,brown", "R,100,G,200,B,150"];
    path(ParameterStyle::Simple, false, [nothing, simple[0], simple[1], simple[2]]);
    path(ParameterStyle::Simple, true, [nothing, simple[0], simple[1], "R=100,G=200,B=150"]);

    let header = |explode, expected| {
        check_row("headerParameters", ParameterStyle::Simple, explode, expected)
    };
    header(false, ["", simple[0], simple[1], simple[2]]);
    header(true, ["", simple[0], simple[1], "R=100,G=200,B=150"]);

    let query = |style, explode, expected| check_row("queryParameters", style, explode, expected);
    let (list, object) = ("color=blue,black,brown", "color=R,100,G,200,B,150");
    query(ParameterStyle::Form, false, ["color=", "color=blue", list, object]);
    let exploded = "color=blue&color=black&color=brown";
    query(ParameterStyle::Form, true, ["color=", "color=blue", exploded, "R=100&G=200&B=150"]);

    // A cookie's pairs are joined as RFC 6265 has it, section 4.2.1.
    let cookie =
        |explode, expected| check_row("cookieParameters", ParameterStyle::Form, explode, expected);
    cookie(false, ["color=", "color=blue", list, object]);
    let joined = "color=blue; color=black; color=brown";
    cookie(true, ["color=", "color=blue", joined, "R=100; G=200; B=150"]);

    // Of the others, the table has arrays and objects, and `deepObject` has objects alone: the
    // cells that are `n/a` there hold what most services read.
    let list = "color=blue%20black%20brown";
    let object = "color=R%20100%20G%20200%20B%20150";
    query(ParameterStyle::SpaceDelimited, false, ["color=", "color=blue", list, object]);
    let list = "color=blue%7Cblack%7Cbrown";
    let object = "color=R%7C100%7CG%7C200%7CB%7C150";
    query(ParameterStyle::PipeDelimited, false, ["color=", "color=blue", list, object]);
    for style in [ParameterStyle::SpaceDelimited, ParameterStyle::PipeDelimited] {
        query(style, true, ["color=", "color=blue", exploded, "R=100&G=200&B=150"]);
    }
    let list = "color%5B%5D=blue&color%5B%5D=black&color%5B%5D=brown";
    let object = "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150";
    for explode in [false, true] {
        query(ParameterStyle::DeepObject, explode, ["color=", "color=blue", list, object]);
    }
}

#[test]
fn what_is_empty_in_a_matrix_has_no_equals_sign() {
    let written = |value: Value, explode| {
        write_path(
            "a",
            StyledValue::from_value(&value).unwrap(),
            styled(ParameterStyle::Matrix, explode),
        )
        .unwrap()
    };
    assert_eq!(written(json!(["", "x", ""]), true), ";a;a=x;a");
    assert_eq!(written(json!({"R": "", "G": 1}), true), ";R;G=1");
    assert_eq!(written(json!(["", "x"]), false), ";a=,x");
}

#[test]
fn path_styles_follow_the_table() {
    let simple = ["", "blue", "blue,bl%2Cack,brown", "R,100,G%26,200,B,150"];
    check_path(ParameterStyle::Simple, false, simple);
    let simple = ["", "blue", "blue,bl%2Cack,brown", "R=100,G%26=200,B=150"];
    check_path(ParameterStyle::Simple, true, simple);
    let label = [".", ".blue", ".blue,bl%2Cack,brown", ".R,100,G%26,200,B,150"];
    check_path(ParameterStyle::Label, false, label);
    let label = [".", ".blue", ".blue.bl%2Cack.brown", ".R=100.G%26=200.B=150"];
    check_path(ParameterStyle::Label, true, label);
    let lists = ";color=blue,bl%2Cack,brown";
    check_path(
        ParameterStyle::Matrix,
        false,
        [";color", ";color=blue", lists, ";color=R,100,G%26,200,B,150"],
    );
    let lists = ";color=blue;color=bl%2Cack;color=brown";
    check_path(
        ParameterStyle::Matrix,
        true,
        [";color", ";color=blue", lists, ";R=100;G%26=200;B=150"],
    );
}

#[test]
fn query_styles_follow_the_table() {
    let exploded = "color=blue&color=bl%2Cack&color=brown";
    let members = "R=100&G%26=200&B=150";
    check_query(ParameterStyle::Form, true, ["color=", "color=blue", exploded, members]);
    check_query(
        ParameterStyle::Form,
        false,
        ["color=", "color=blue", "color=blue,bl%2Cack,brown", "color=R,100,G%26,200,B,150"],
    );
    let spaces = "color=blue%20bl%2Cack%20brown";
    let members = "color=R%20100%20G%26%20200%20B%20150";
    check_query(ParameterStyle::SpaceDelimited, false, ["color=", "color=blue", spaces, members]);
    let pipes = "color=blue%7Cbl%2Cack%7Cbrown";
    let members = "color=R%7C100%7CG%26%7C200%7CB%7C150";
    check_query(ParameterStyle::PipeDelimited, false, ["color=", "color=blue", pipes, members]);
    let members = "color%5BR%5D=100&color%5BG%26%5D=200&color%5BB%5D=150";
    // The table has no arrays here; most services read them so.
    let array = "color%5B%5D=blue&color%5B%5D=bl%2Cack&color%5B%5D=brown";
    check_query(ParameterStyle::DeepObject, true, ["color=", "color=blue", array, members]);
    // Nor has it exploded lists with other delimiters: there is nothing left to delimit.
    for style in [ParameterStyle::SpaceDelimited, ParameterStyle::PipeDelimited] {
        check_query(style, true, ["color=", "color=blue", exploded, "R=100&G%26=200&B=150"]);
    }
}

#[test]
fn header_styles_follow_the_table() {
    let written = |explode| {
        values().map(|value| write_header(StyledValue::from_value(&value).unwrap(), explode))
    };
    assert_eq!(written(false), ["", "blue", "blue,bl,ack,brown", "R,100,G&,200,B,150"]);
    assert_eq!(written(true), ["", "blue", "blue,bl,ack,brown", "R=100,G&=200,B=150"]);
}

#[test]
fn what_has_no_items_is_no_value() {
    for nothing in [json!(null), json!([]), json!({}), json!([null]), json!({"a": null})] {
        assert_eq!(StyledValue::from_value(&nothing), None, "{nothing}");
        for style in [ParameterStyle::Form, ParameterStyle::PipeDelimited] {
            assert_eq!(query(&nothing, styled(style, false), EscapeMode::All), "");
        }
    }
    assert_eq!(
        query(
            &json!({"a": null, "b": []}),
            styled(ParameterStyle::DeepObject, true),
            EscapeMode::All
        ),
        ""
    );
}

#[test]
fn values_inside_others_are_json() {
    let nested = json!([[1, "a"], {"b": null}]);
    let form = query(&nested, styled(ParameterStyle::Form, true), EscapeMode::Nothing);
    assert_eq!(form, r#"color=[1,"a"]&color={"b":null}"#);
    let encoded = query(&json!({"a": ["x"]}), styled(ParameterStyle::Form, false), EscapeMode::All);
    assert_eq!(encoded, "color=a,%5B%22x%22%5D");
}

#[test]
fn deep_objects_nest() {
    let deep = styled(ParameterStyle::DeepObject, true);
    let value = json!({"a": {"b": 1, "c]": [2, {"d": true}, [3]]}, "e": "x y"});
    assert_eq!(
        query(&value, deep, EscapeMode::Nothing),
        "color[a][b]=1&color[a][c]][]=2&color[a][c]][1][d]=true&color[a][c]][2][]=3&color[e]=x y",
    );
    assert!(query(&value, deep, EscapeMode::All).contains("color%5Ba%5D%5Bc%5D%5D%5B%5D=2"));
    let mut bottomless = json!(1);
    for _ in 0..100 {
        bottomless = json!([bottomless]);
    }
    assert_eq!(query(&bottomless, deep, EscapeMode::All), "refused");
}

#[test]
fn reserved_characters_stay_where_that_is_asked_for() {
    let reserved = ":/?#[]@!$&'()*+,;=";
    let form = styled(ParameterStyle::Form, true);
    let written = |text: &str| query(&json!(text), form, EscapeMode::Reserved);
    assert_eq!(written(reserved), "color=:/?%23%5B%5D@!$%26%27()*%2B,%3B=");
    // What is encoded already is not encoded again; a lone `%` is.
    assert_eq!(written("a%2Fb%2"), "color=a%2Fb%252");
    assert_eq!(written("100%"), "color=100%25");
    assert_eq!(written("%é %%41"), "color=%25%C3%A9%20%25%41");
    let names = query(&json!({"a=b": "c=d"}), form, EscapeMode::Reserved);
    assert_eq!(names, "a%3Db=c=d");
}

/// Text of all kinds, but none that is empty: an empty list item or name cannot be told from none.
fn text() -> impl Strategy<Value = String> {
    "(?s).{1,12}"
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8().unwrap().into_owned()
}

fn list(items: &[String]) -> StyledValue {
    StyledValue::List(items.to_vec())
}

proptest! {
    #[test]
    fn lists_read_back_from_every_style(items in proptest::collection::vec(text(), 1..5)) {
        let value = json!(items);
        let read = |text: &str, separator: &str| -> Vec<String> {
            text.split(separator).map(decoded).collect()
        };
        for explode in [false, true] {
            let path = |style| write_path("n;m", list(&items), styled(style, explode)).unwrap();
            prop_assert_eq!(&read(&path(ParameterStyle::Simple), ","), &items);
            let label = path(ParameterStyle::Label);
            let label = label.strip_prefix('.').unwrap();
            // An exploded label is not reversible where items have dots: dots stay as they are.
            if !explode || items.iter().all(|item| !item.contains('.')) {
                prop_assert_eq!(&read(label, if explode { "." } else { "," }), &items);
            }
            let matrix = path(ParameterStyle::Matrix);
            let matrix = matrix.strip_prefix(";n%3Bm=").unwrap();
            let separator = if explode { ";n%3Bm=" } else { "," };
            prop_assert_eq!(&read(matrix, separator), &items);
            for (style, separator) in
                [(ParameterStyle::Form, ","), (ParameterStyle::SpaceDelimited, "%20"), (ParameterStyle::PipeDelimited, "%7C")]
            {
                let pairs = write_query("n&", &value, styled(style, explode), EscapeMode::All).unwrap();
                prop_assert!(pairs.iter().all(|(name, _)| name == "n%26"));
                let unclear = |item: &String| {
                    (style == ParameterStyle::SpaceDelimited && item.contains(' '))
                        || (style == ParameterStyle::PipeDelimited && item.contains('|'))
                };
                if explode {
                    let found: Vec<_> = pairs.iter().map(|(_, value)| decoded(value)).collect();
                    prop_assert_eq!(&found, &items);
                } else if !items.iter().any(unclear) {
                    prop_assert_eq!(&read(&pairs[0].1, separator), &items);
                }
            }
            let pairs = write_query("n", &value, styled(ParameterStyle::DeepObject, explode), EscapeMode::All);
            let found: Vec<_> = pairs.unwrap().iter().map(|(_, value)| decoded(value)).collect();
            prop_assert_eq!(&found, &items);
        }
    }

    #[test]
    fn objects_read_back_from_every_style(
        members in proptest::collection::btree_map(text(), text(), 1..5),
    ) {
        let members: Vec<(String, String)> = members.into_iter().collect();
        let value: Value = members.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        let flat = |text: &str, separator: &str| -> Vec<(String, String)> {
            let parts: Vec<_> = text.split(separator).map(decoded).collect();
            parts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
        };
        let paired = |text: &str, separator: &str| -> Vec<(String, String)> {
            let pairs = text.split(separator).map(|pair| pair.split_once('=').unwrap());
            pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
        };
        let shape = StyledValue::Map(members.clone());
        let path = |style, explode| write_path("n", shape.clone(), styled(style, explode)).unwrap();
        prop_assert_eq!(&flat(&path(ParameterStyle::Simple, false), ","), &members);
        prop_assert_eq!(&paired(&path(ParameterStyle::Simple, true), ","), &members);
        prop_assert_eq!(&flat(&path(ParameterStyle::Label, false)[1..], ","), &members);
        prop_assert_eq!(&flat(&path(ParameterStyle::Matrix, false)[3..], ","), &members);
        prop_assert_eq!(&paired(&path(ParameterStyle::Matrix, true)[1..], ";"), &members);
        let pairs = write_query("n", &value, styled(ParameterStyle::Form, true), EscapeMode::All).unwrap();
        let found: Vec<_> = pairs.iter().map(|(k, v)| (decoded(k), decoded(v))).collect();
        prop_assert_eq!(&found, &members);
        let pairs = write_query("n", &value, styled(ParameterStyle::Form, false), EscapeMode::All).unwrap();
        prop_assert_eq!(&flat(&pairs[0].1, ","), &members);
        let pairs = write_query("n", &value, styled(ParameterStyle::DeepObject, true), EscapeMode::All).unwrap();
        let found: Vec<_> = pairs
            .iter()
            .map(|(name, value)| {
                let name = name.strip_prefix("n%5B").unwrap().strip_suffix("%5D").unwrap();
                (decoded(name), decoded(value))
            })
            .collect();
        prop_assert_eq!(&found, &members);
    }

    #[test]
    fn reserved_text_never_ends_its_value_and_reads_back(value in "(?s)[^%]{0,20}") {
        let style = ValueStyle { style: ParameterStyle::Form, explode: true, allow_reserved: true };
        let pairs = write_query("n", &json!(value), style, EscapeMode::from_style(style)).unwrap();
        prop_assert_eq!(pairs.len(), 1);
        prop_assert!(!pairs[0].1.contains(['&', '#', '+', ';', ' ', '[', ']', '\'', '"']));
        prop_assert_eq!(decoded(&pairs[0].1), value);
    }
}
