//! From the answer of a service to the value that `output_mapping` reads.

use a2s::Task;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use serde::Deserialize;
use serde_json::Value;

use super::excerpt::{one_line, start_of};
use super::is_json;
use crate::error::{Error, Kind};

/// The most characters of an answer that an error shows.
const EXCERPT_CHARS: usize = 200;
/// The most errors of a GraphQL answer that an error shows.
const SHOWN_ERRORS: usize = 3;

/// An answer as it came, within the limits of the connection.
#[derive(Debug, Clone)]
pub(crate) struct RawResponse {
    /// HTTP status.
    pub(crate) status: u16,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Bytes,
    /// How many redirects led here.
    pub(crate) redirects: u32,
}

impl RawResponse {
    /// The media type, with its parameters.
    pub(crate) fn content_type(&self) -> Option<&str> {
        self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok())
    }

    /// Size of the body in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.body.len() as u64
    }

    fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Why an answer gives no value. Excerpts are short and on one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResponseError {
    /// Another status than success.
    #[error(
        "the service answered with status {status}{}{}",
        asked(.retry_after.as_deref()),
        said(.excerpt)
    )]
    Status {
        /// HTTP status.
        status: u16,
        /// When the service wants to be asked again (`Retry-After`).
        retry_after: Option<String>,
        /// The start of what it said.
        excerpt: String,
    },
    /// Not JSON at all.
    #[error("the service answered with {content_type} where JSON was expected{}", said(.excerpt))]
    NotJson {
        /// The media type that came.
        content_type: String,
        /// The start of what it said.
        excerpt: String,
    },
    /// JSON by its type, but not by its content.
    #[error("the service answered with JSON that cannot be read ({reason}){}", said(.excerpt))]
    Malformed {
        /// What is wrong with it.
        reason: String,
        /// The start of what it said.
        excerpt: String,
    },
    /// A GraphQL answer with errors.
    #[error("the GraphQL service answered with {}: {}", data(*.partial), .errors.join("; "))]
    Graphql {
        /// The first errors, each with its path.
        errors: Vec<String>,
        /// Whether there was data beside the errors.
        partial: bool,
    },
    /// Not a GraphQL answer.
    #[error("the service did not answer as GraphQL: {reason}{}", said(.excerpt))]
    NotGraphql {
        /// What is missing.
        reason: &'static str,
        /// The start of what it said.
        excerpt: String,
    },
}

fn asked(retry_after: Option<&str>) -> String {
    retry_after.map_or_else(String::new, |text| format!(" and asks for a pause (`{text}`)"))
}

fn said(excerpt: &str) -> String {
    if excerpt.is_empty() { String::new() } else { format!(": {excerpt}") }
}

fn data(partial: bool) -> &'static str {
    if partial { "partial data and errors" } else { "errors" }
}

impl From<ResponseError> for Error {
    fn from(error: ResponseError) -> Self {
        let kind = match error {
            ResponseError::Status { .. } => Kind::StatusError,
            ResponseError::NotJson { .. }
            | ResponseError::Malformed { .. }
            | ResponseError::NotGraphql { .. } => Kind::NotJson,
            ResponseError::Graphql { .. } => Kind::GraphqlErrors,
        };
        Self::new(kind, error.to_string())
    }
}

/// The value of an answer: the body of an OpenAPI task, null when it is empty; the whole answer of
/// a GraphQL task.
///
/// # Errors
/// When the status is not success, the body is not JSON (nested at most 128 deep), or a GraphQL
/// answer has errors, with or without data beside them.
pub(crate) fn read_response(task: &Task, response: &RawResponse) -> Result<Value, ResponseError> {
    match task {
        Task::OpenApi(_) if !response.is_success() => Err(status_error(response)),
        Task::OpenApi(_) if response.body.is_empty() => Ok(Value::Null),
        Task::OpenApi(_) => read_json(response),
        Task::Graphql(_) => read_graphql(response),
    }
}

fn status_error(response: &RawResponse) -> ResponseError {
    let retry_after = response.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    ResponseError::Status {
        status: response.status,
        retry_after: retry_after.map(|text| one_line(text, 40)),
        excerpt: start_of(&response.body, EXCERPT_CHARS),
    }
}

fn read_json(response: &RawResponse) -> Result<Value, ResponseError> {
    let content_type = response.content_type();
    let claims_json = content_type.is_none_or(is_json);
    let body = response.body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&response.body);
    match serde_json::from_slice::<Value>(body) {
        Ok(value) if claims_json => Ok(value),
        // Files of JSON are often served as text. A lone number or word in a text is not JSON.
        Ok(value @ (Value::Array(_) | Value::Object(_))) => Ok(value),
        Err(error) if claims_json => Err(ResponseError::Malformed {
            reason: one_line(&error.to_string(), EXCERPT_CHARS),
            excerpt: start_of(&response.body, EXCERPT_CHARS),
        }),
        Ok(_) | Err(_) => Err(ResponseError::NotJson {
            content_type: one_line(content_type.unwrap_or("no content type"), EXCERPT_CHARS),
            excerpt: start_of(&response.body, EXCERPT_CHARS),
        }),
    }
}

/// Reads a GraphQL answer. With another status than success it may still say what went wrong
/// (GraphQL over HTTP, "Status Codes").
fn read_graphql(response: &RawResponse) -> Result<Value, ResponseError> {
    let value = match read_json(response) {
        Ok(value) => value,
        Err(_) if !response.is_success() => return Err(status_error(response)),
        Err(error) => return Err(error),
    };
    let errors = describe_errors(&value);
    let has_data = value.get("data").is_some_and(|data| !data.is_null());
    if !errors.is_empty() {
        return Err(ResponseError::Graphql { errors, partial: has_data });
    }
    if !response.is_success() {
        return Err(status_error(response));
    }
    if !has_data {
        let reason = "there is neither `data` nor `errors`";
        return Err(ResponseError::NotGraphql {
            reason,
            excerpt: start_of(&response.body, EXCERPT_CHARS),
        });
    }
    Ok(value)
}

/// The first errors of an answer, each with the path of its field.
fn describe_errors(value: &Value) -> Vec<String> {
    let errors = match value.get("errors") {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(errors)) => errors.as_slice(),
        // Not what the specification says, but surely not success either.
        Some(other) => std::slice::from_ref(other),
    };
    let mut described: Vec<String> = errors.iter().take(SHOWN_ERRORS).map(describe_error).collect();
    if errors.len() > SHOWN_ERRORS {
        described.push(format!("and {} more", errors.len() - SHOWN_ERRORS));
    }
    described
}

fn describe_error(error: &Value) -> String {
    let show = |text: &str| one_line(text, EXCERPT_CHARS);
    let Ok(typed) = graphql_client::Error::deserialize(error) else {
        // Servers put all sorts of things here; what they say counts more than how.
        let message = error.get("message").and_then(Value::as_str);
        return message.map_or_else(|| show(&error.to_string()), show);
    };
    let path: Vec<String> = typed.path.iter().flatten().map(ToString::to_string).collect();
    let message = show(&typed.message);
    if path.is_empty() { message } else { format!("{} (at {})", message, show(&path.join("."))) }
}

#[cfg(test)]
mod tests {
    use a2s::Method;
    use http::HeaderValue;
    use serde_json::json;

    use super::*;
    use crate::request::fixture::{graphql, openapi};

    fn response(status: u16, content_type: &str, body: impl Into<Bytes>) -> RawResponse {
        let mut headers = HeaderMap::new();
        if !content_type.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap());
        }
        RawResponse { status, headers, body: body.into(), redirects: 0 }
    }

    fn read(response: &RawResponse) -> Result<Value, String> {
        let task = openapi(Method::Get, "https://api.example", "/", &[]);
        read_response(&task, response).map_err(|error| error.to_string())
    }

    fn read_graphql(status: u16, body: &Value) -> Result<Value, String> {
        let task = graphql("https://api.example", "{ a }", &[]);
        let response = response(status, "application/graphql-response+json", body.to_string());
        read_response(&Task::Graphql(Box::new(task)), &response).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_error(response: &RawResponse, expected: &str) {
        assert_eq!(read(response), Err(expected.to_owned()));
    }

    #[test]
    fn the_body_is_the_value() {
        let body = r#"{"temperature": 21.5}"#;
        for content_type in
            ["application/json", "application/vnd.api+json; charset=utf-8", "", "text/plain"]
        {
            let value = read(&response(200, content_type, body));
            assert_eq!(value, Ok(json!({"temperature": 21.5})), "{content_type}");
        }
        assert_eq!(read(&response(200, "application/json", "\u{feff}[1]")), Ok(json!([1])));
        assert_eq!(read(&response(200, "application/json", "7")), Ok(json!(7)));
        assert_eq!(read(&response(204, "", "")), Ok(Value::Null));
    }

    #[test]
    fn a_status_other_than_success_is_an_error_with_an_excerpt() {
        let body = "{\"error\":\n\t\"no such city\u{1b}[31m\"}";
        let expected = r#"the service answered with status 404: {"error": "no such city[31m"}"#;
        check_error(&response(404, "application/json", body), expected);
        check_error(&response(500, "", ""), "the service answered with status 500");
        check_error(&response(302, "", ""), "the service answered with status 302");
        let mut patience = response(429, "", "slow down");
        patience.headers.insert(RETRY_AFTER, HeaderValue::from_static("120"));
        let expected =
            "the service answered with status 429 and asks for a pause (`120`): slow down";
        check_error(&patience, expected);
        let long = read(&response(500, "text/plain", "x".repeat(1_000_000))).unwrap_err();
        assert!(long.len() < 300 && long.ends_with('…'), "{long}");
    }

    #[test]
    fn an_answer_that_is_not_json_says_what_came() {
        let page = response(200, "text/html; charset=utf-8", "<!doctype html>\n<title>Hi</title>");
        let expected = "the service answered with text/html; charset=utf-8 where JSON was expected: \
                        <!doctype html> <title>Hi</title>";
        check_error(&page, expected);
        let expected = "the service answered with text/plain where JSON was expected: 42";
        check_error(&response(200, "text/plain", "42"), expected);
        let cut = read(&response(200, "application/json", r#"{"a": "#)).unwrap_err();
        assert!(cut.contains("EOF") && cut.ends_with(r#": {"a":"#), "{cut}");
    }

    #[test]
    fn json_nested_too_deep_is_an_error_and_no_overflow() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let error = read(&response(200, "application/json", deep)).unwrap_err();
        assert!(error.contains("recursion limit"), "{error}");
    }

    #[test]
    fn the_whole_graphql_answer_is_the_value() {
        let answer = json!({"data": {"a": 1}, "extensions": {"cost": 1}});
        assert_eq!(read_graphql(200, &answer), Ok(answer.clone()));
        let answer = json!({"data": {"a": null}, "errors": []});
        assert_eq!(read_graphql(200, &answer), Ok(answer.clone()));
    }

    #[test]
    fn graphql_errors_fail_the_step_with_messages_and_paths() {
        let place = json!({"line": 1, "column": 3});
        let path = json!(["user", 0, "mail"]);
        let denied = json!({"message": "not\nallowed", "path": path, "locations": [place]});
        let expected = "the GraphQL service answered with errors: not allowed (at user.0.mail)";
        assert_eq!(read_graphql(200, &json!({"errors": [denied]})), Err(expected.to_owned()));
        assert_eq!(read_graphql(400, &json!({"errors": [denied]})), Err(expected.to_owned()));
        let expected = "the GraphQL service answered with partial data and errors: \
                        not allowed (at user.0.mail)";
        let partial = json!({"data": {"user": null}, "errors": [denied]});
        assert_eq!(read_graphql(200, &partial), Err(expected.to_owned()));
        // Errors of other shapes than the specification knows.
        let odd = json!([{"message": "m", "path": "user"}, "text", {"code": 7}, 1, 2]);
        let odd = json!({"data": null, "errors": odd});
        let expected =
            "the GraphQL service answered with errors: m; \"text\"; {\"code\":7}; and 2 more";
        assert_eq!(read_graphql(200, &odd), Err(expected.to_owned()));
        let odd = json!({"data": {"a": 1}, "errors": {"message": "m"}});
        assert!(read_graphql(200, &odd).is_err());
    }

    #[test]
    fn what_is_not_a_graphql_answer_is_refused() {
        for answer in [json!({}), json!([]), json!("x"), json!({"data": null})] {
            let error = read_graphql(200, &answer).unwrap_err();
            assert!(error.starts_with("the service did not answer as GraphQL"), "{error}");
        }
        let error = read_graphql(502, &json!({"message": "bad gateway"})).unwrap_err();
        assert!(error.starts_with("the service answered with status 502"), "{error}");
    }
}
