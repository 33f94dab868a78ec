//! Plain HTTP, for what the command would not send.

use reqwest::Method;

use crate::harness::RUNTIME;

/// Status and body of a GET.
pub(crate) fn get(url: &str, headers: &[(&str, &str)]) -> (u16, String) {
    send("GET", url, headers, None)
}

/// Status and body of the answer to a request.
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
        (response.status().as_u16(), response.text().await.unwrap())
    })
}

/// A client that asks nobody else for its way.
pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}
