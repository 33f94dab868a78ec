//! Security events in the words of OCSF 1.5.0: API Activity and Detection Finding, with the profiles
//! Trace and Security Control. What OCSF has no place for stands under `unmapped.aos`, in the words
//! of AOS.

use a2s_api::CapabilityRef;
use serde::Serialize;
use uuid::Uuid;

/// The version of the schema.
pub(super) const VERSION: &str = "1.5.0";
/// The value of an enumeration for cases without a value of their own; the name describes the case.
const OTHER: u8 = 99;

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct OcsfEvent {
    #[serde(flatten)]
    class: OcsfClass,
    severity_id: u8,
    severity: &'static str,
    /// Milliseconds since 1970.
    pub(super) time: i64,
    message: String,
    metadata: OcsfMetadata,
    #[serde(flatten)]
    status: OcsfEventStatus,
    #[serde(flatten)]
    content: OcsfContent,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<OcsfTrace>,
    unmapped: Unmapped,
}

/// The status of an event, as its four fields state it.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct OcsfEventStatus {
    status_id: u8,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_detail: Option<&'static str>,
}

/// The data of an event, except for its class.
pub(super) struct EventBody {
    pub(super) severity: OcsfSeverity,
    pub(super) time: i64,
    pub(super) message: String,
    pub(super) metadata: OcsfMetadata,
    pub(super) status: OcsfStatus,
    pub(super) status_code: Option<String>,
    pub(super) status_detail: Option<&'static str>,
    pub(super) trace: Option<OcsfTrace>,
    pub(super) aos: AosDetails,
}

impl OcsfEvent {
    /// Creates the event of an activity (API Activity, 6003).
    pub(super) fn activity(activity: OcsfActivity, what: ApiActivity, body: EventBody) -> Self {
        let (id, name) = match activity {
            OcsfActivity::Read => (2, "Read"),
            OcsfActivity::Update => (3, "Update"),
            OcsfActivity::Delete => (4, "Delete"),
            OcsfActivity::Other(name) => (OTHER, name),
        };
        let class = OcsfClass::new((6, "Application Activity"), (6003, "API Activity"), (id, name));
        Self::new(class, OcsfContent::Activity(Box::new(what)), body)
    }

    /// An event that needs attention (Detection Finding, 2004).
    pub(super) fn finding(what: DetectionFinding, body: EventBody) -> Self {
        let class = OcsfClass::new((2, "Findings"), (2004, "Detection Finding"), (1, "Create"));
        Self::new(class, OcsfContent::Finding(Box::new(what)), body)
    }

    fn new(class: OcsfClass, content: OcsfContent, body: EventBody) -> Self {
        let EventBody {
            severity,
            time,
            message,
            mut metadata,
            status,
            status_code,
            status_detail,
            trace,
            aos,
        } = body;
        let (severity_id, severity) = match severity {
            OcsfSeverity::Informational => (1, "Informational"),
            OcsfSeverity::Low => (2, "Low"),
            OcsfSeverity::Medium => (3, "Medium"),
            OcsfSeverity::High => (4, "High"),
        };
        let (status_id, status) = match (&content, status) {
            // Of a finding, it is how far people are with it.
            (OcsfContent::Finding(_), _) => (1, "New"),
            (OcsfContent::Activity(_), OcsfStatus::Success) => (1, "Success"),
            (OcsfContent::Activity(_), OcsfStatus::Failure) => (2, "Failure"),
            (OcsfContent::Activity(_), OcsfStatus::Other(name)) => (OTHER, name),
        };
        let control = matches!(content, OcsfContent::Finding(_)).then_some("security_control");
        metadata.profiles = trace.as_ref().map(|_| "trace").into_iter().chain(control).collect();
        Self {
            class,
            severity_id,
            severity,
            time,
            message,
            metadata,
            status: OcsfEventStatus { status_id, status, status_code, status_detail },
            content,
            trace,
            unmapped: Unmapped { aos },
        }
    }
}

/// The kind of action on an API.
#[derive(Debug, Clone, Copy)]
pub(super) enum OcsfActivity {
    Read,
    Update,
    Delete,
    /// Another activity, by its name.
    Other(&'static str),
}

/// The severity of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OcsfSeverity {
    Informational,
    Low,
    Medium,
    High,
}

/// The result of an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OcsfStatus {
    Success,
    Failure,
    /// Neither success nor failure; contains the name.
    Other(&'static str),
}

/// The numbers and names of a category, class and activity that belong together.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct OcsfClass {
    category_uid: u8,
    category_name: &'static str,
    class_uid: u16,
    class_name: &'static str,
    activity_id: u8,
    activity_name: &'static str,
    type_uid: u32,
    type_name: String,
}

impl OcsfClass {
    fn new(
        (category_uid, category_name): (u8, &'static str),
        (class_uid, class_name): (u16, &'static str),
        (activity_id, activity_name): (u8, &'static str),
    ) -> Self {
        let caption = if activity_id == OTHER { "Other" } else { activity_name };
        Self {
            category_uid,
            category_name,
            class_uid,
            class_name,
            activity_id,
            activity_name,
            type_uid: u32::from(class_uid) * 100 + u32::from(activity_id),
            type_name: format!("{class_name}: {caption}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
enum OcsfContent {
    Activity(Box<ApiActivity>),
    Finding(Box<DetectionFinding>),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OcsfMetadata {
    pub(super) version: &'static str,
    pub(super) product: MetadataProduct,
    pub(super) log_name: &'static str,
    /// An id that is the same whenever the same event is reported.
    pub(super) uid: Uuid,
    /// The run.
    pub(super) correlation_uid: Uuid,
    /// The number in the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sequence: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) profiles: Vec<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct MetadataProduct {
    pub(super) name: &'static str,
    pub(super) vendor_name: &'static str,
    pub(super) version: &'static str,
}

/// The fields that are specific to an API Activity.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ApiActivity {
    pub(super) actor: OcsfActor,
    pub(super) api: OcsfApi,
    pub(super) src_endpoint: SourceEndpoint,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dst_endpoint: Option<DestinationEndpoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) http_request: Option<HttpRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) http_response: Option<HttpResponse>,
}

/// The fields that are specific to a Detection Finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct DetectionFinding {
    pub(super) finding_info: FindingInfo,
    pub(super) evidences: [Evidence; 1],
    pub(super) is_alert: bool,
    pub(super) action_id: u8,
    pub(super) action: &'static str,
    pub(super) disposition_id: u8,
    pub(super) disposition: &'static str,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct FindingInfo {
    pub(super) uid: Uuid,
    pub(super) title: String,
    pub(super) desc: String,
    pub(super) created_time: i64,
    /// The guardian's reason codes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) types: Vec<String>,
    pub(super) analytic: Analytic,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Analytic {
    /// The number 1: a rule.
    pub(super) type_id: u8,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    /// The guardian, which has only a name.
    pub(super) uid: String,
    pub(super) name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Evidence {
    pub(super) api: OcsfApi,
    pub(super) actor: OcsfActor,
    pub(super) src_endpoint: SourceEndpoint,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dst_endpoint: Option<DestinationEndpoint>,
}

/// The principal that the agent acts for, or the agent when the principal is not known, and the session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OcsfActor {
    pub(super) user: OcsfUser,
    pub(super) session: OcsfSession,
    pub(super) app_name: &'static str,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OcsfUser {
    pub(super) uid: String,
    pub(super) name: String,
    pub(super) type_id: u8,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OcsfSession {
    pub(super) uid: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OcsfApi {
    /// The tool, or the method of AOS.
    pub(super) operation: String,
    /// The capability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<ApiService>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<ApiRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<ApiResponse>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ApiService {
    pub(super) name: String,
    pub(super) version: String,
    /// The digest.
    pub(super) uid: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ApiRequest {
    pub(super) uid: Uuid,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ApiResponse {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<u16>,
    /// The code of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error_message: Option<&'static str>,
}

/// The executor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct SourceEndpoint {
    pub(super) uid: String,
    pub(super) name: String,
    pub(super) svc_name: String,
    pub(super) type_id: u8,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
}

/// The service.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct DestinationEndpoint {
    pub(super) hostname: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<u16>,
    /// The endpoint to which connections for it are sent instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) proxy_endpoint: Option<ProxyEndpoint>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ProxyEndpoint {
    pub(super) hostname: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct HttpRequest {
    pub(super) http_method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<HttpUrl>,
}

/// An address without its query, because the query contains values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct HttpUrl {
    pub(super) scheme: String,
    pub(super) hostname: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<u16>,
    pub(super) path: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct HttpResponse {
    pub(super) code: u16,
}

/// The trace and span of the event, as in the exported spans.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct OcsfTrace {
    pub(super) uid: String,
    pub(super) span: TraceSpan,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct TraceSpan {
    pub(super) uid: String,
    pub(super) start_time: i64,
    pub(super) end_time: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Unmapped {
    aos: AosDetails,
}

/// The data of AOS about it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AosDetails {
    pub(super) session_id: String,
    pub(super) turn_id: Uuid,
    pub(super) step_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) execution_id: Option<Uuid>,
    /// The capability that the run was started for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) root: Option<CapabilityRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_digest: Option<String>,
    pub(super) decisions: Vec<AosDecision>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AosDecision {
    pub(super) method: &'static str,
    /// The guardian that decided, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) guardian: Option<String>,
    pub(super) decision: String,
    pub(super) source: &'static str,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) reason_code: Vec<String>,
    /// The locations that a `modify` changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) changed: Vec<String>,
}
