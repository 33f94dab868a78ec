//! Plain HTTP, for what the command would not send.

use std::sync::LazyLock;

use reqwest::Method;
use serde_json::Value;

use crate::harness::{RUNTIME, root};

/// Status and body of a GET.
pub(crate) fn get(url: &str, headers: &[(&str, &str)]) -> (u16, String) {
    send("GET", url, headers, None)
}

/// Status and body of the answer to a request. The description of the API has every status.
pub(crate) fn send(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: Option<String>,
) -> (u16, String) {
    RUNTIME.block_on(async {
        let mut request = client().request(method.parse::<Method>().unwrap(), url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = request.send().await.unwrap();
        let (status, path) = (response.status().as_u16(), response.url().path().to_owned());
        let is_described = a2s_api::has_status(&DESCRIPTION, method, &path, status);
        assert!(is_described, "{status} is described nowhere for {method} {path}");
        (status, response.text().await.unwrap())
    })
}

static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| {
    let text = std::fs::read(root().join("docs/openapi.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
});

/// A client that asks nobody else for its way.
pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}
