//! Builds security events: the data that all events of a run share, and the specific data of each.

use a2s_api::Principal;
use a2s_api::{CapabilityRef, DecisionRecord, DecisionSource, GuardianPhase};
use jiff::Timestamp;
use uuid::Uuid;

use super::super::context::{RunTrace, SpanId};
use super::super::span::shorten_text;
use super::OcsfProduct;
use super::event::{
    Analytic, AosDecision, AosDetails, ApiActivity, ApiRequest, ApiResponse, ApiService,
    DestinationEndpoint, DetectionFinding, EventBody, Evidence, FindingInfo, MetadataProduct,
    OcsfActor, OcsfApi, OcsfEvent, OcsfMetadata, OcsfSession, OcsfSeverity, OcsfStatus, OcsfTrace,
    OcsfUser, SourceEndpoint, TraceSpan, VERSION,
};
use crate::gate::executor_agent;

/// The data that all events of a run share.
pub(super) struct EventBuilder<'e> {
    /// The principal that the run belongs to, if it is known.
    pub(super) principal: Option<&'e Principal>,
    pub(super) run: Uuid,
    pub(super) session: &'e str,
    pub(super) root: Option<&'e CapabilityRef>,
    pub(super) trace: RunTrace,
    pub(super) product: &'e OcsfProduct,
}

/// The subject of one event.
pub(super) struct EventSubject<'e> {
    pub(super) operation: String,
    /// The capability that it belongs to.
    pub(super) document: Option<&'e CapabilityRef>,
    pub(super) step: &'e str,
    pub(super) tool: Option<String>,
    pub(super) execution_id: Option<Uuid>,
    /// Its span, with start and end.
    pub(super) span: Option<(SpanId, Timestamp, Timestamp)>,
    pub(super) destination: Option<DestinationEndpoint>,
}

/// The time of an event, with its number and id.
pub(super) struct EventTime {
    pub(super) at: Timestamp,
    pub(super) seq: Option<u64>,
    pub(super) uid: Uuid,
}

impl EventBuilder<'_> {
    /// An id that is the same whenever the same event is reported.
    pub(super) fn stable_uid(&self, name: &str) -> Uuid {
        Uuid::new_v5(&self.run, format!("ocsf {name}").as_bytes())
    }

    pub(super) fn event_body(
        &self,
        moment: &EventTime,
        about: &EventSubject<'_>,
        severity: OcsfSeverity,
        decisions: Vec<AosDecision>,
    ) -> EventBody {
        let trace = about.span.map(|(span, start, end)| OcsfTrace {
            uid: self.trace.trace.to_string(),
            span: TraceSpan {
                uid: span.to_string(),
                start_time: start.as_millisecond(),
                end_time: end.as_millisecond(),
            },
        });
        EventBody {
            severity,
            time: moment.at.as_millisecond(),
            message: String::new(),
            metadata: OcsfMetadata {
                version: VERSION,
                product: MetadataProduct {
                    name: "A2S",
                    vendor_name: "A2S",
                    version: env!("CARGO_PKG_VERSION"),
                },
                log_name: "a2s-executor",
                uid: moment.uid,
                correlation_uid: self.run,
                sequence: moment.seq,
                profiles: Vec::new(),
            },
            status: OcsfStatus::Success,
            status_code: None,
            status_detail: None,
            trace,
            aos: AosDetails {
                session_id: shorten_text(self.session),
                turn_id: self.run,
                step_id: shorten_text(about.step),
                tool_id: about.tool.clone(),
                execution_id: about.execution_id,
                root: self.root.cloned(),
                attempts: None,
                request_digest: None,
                decisions,
            },
        }
    }

    pub(super) fn activity(&self, about: &EventSubject<'_>, response: ApiResponse) -> ApiActivity {
        ApiActivity {
            actor: self.actor(),
            api: self.api(about, Some(response)),
            src_endpoint: self.source(),
            dst_endpoint: about.destination.clone(),
            http_request: None,
            http_response: None,
        }
    }

    /// Returns the finding for a decision; `None` for a plain approval.
    pub(super) fn finding(
        &self,
        moment: &EventTime,
        about: &EventSubject<'_>,
        decision: &DecisionRecord,
        method: &'static str,
    ) -> Option<OcsfEvent> {
        let (severity, is_alert, action, disposition) = match (&*decision.decision, decision.source)
        {
            ("deny", _) => (OcsfSeverity::High, true, (2, "Denied"), (2, "Blocked")),
            ("modify", _) => (OcsfSeverity::Low, false, (4, "Modified"), (11, "Corrected")),
            (_, DecisionSource::FailedOpen) => {
                (OcsfSeverity::Medium, true, (1, "Allowed"), (16, "No Action"))
            }
            _ => return None,
        };
        let did = match (&*decision.decision, decision.source) {
            ("deny", DecisionSource::Guardian) => "denied",
            ("deny", _) => "gave no usable response and therefore denied",
            ("modify", _) => "changed",
            _ => "gave no usable response and therefore allowed",
        };
        let what = match decision.phase {
            GuardianPhase::Request => "the request of",
            GuardianPhase::Result => "the result of",
            GuardianPhase::McpOutbound => "the MCP message of",
            GuardianPhase::McpInbound => "the MCP response of",
            GuardianPhase::Trigger | GuardianPhase::Memory => "",
        };
        let title = format!("The guardian {did} {what} {}", about.operation).replace("  ", " ");
        let guardian = shorten_text(decision.guardian.as_deref().unwrap_or_default());
        let mut body =
            self.event_body(moment, about, severity, vec![to_aos_decision(decision, method)]);
        body.message.clone_from(&title);
        let finding = DetectionFinding {
            finding_info: FindingInfo {
                uid: moment.uid,
                title,
                desc: shorten_text(&decision.message),
                created_time: moment.at.as_millisecond(),
                types: decision.reason_codes.iter().map(|code| shorten_text(code)).collect(),
                analytic: Analytic {
                    type_id: 1,
                    kind: "Rule",
                    uid: guardian.clone(),
                    name: guardian,
                },
            },
            evidences: [Evidence {
                api: self.api(about, None),
                actor: self.actor(),
                src_endpoint: self.source(),
                dst_endpoint: about.destination.clone(),
            }],
            is_alert,
            action_id: action.0,
            action: action.1,
            disposition_id: disposition.0,
            disposition: disposition.1,
        };
        Some(OcsfEvent::finding(finding, body))
    }

    fn api(&self, about: &EventSubject<'_>, response: Option<ApiResponse>) -> OcsfApi {
        let says = |answer: &ApiResponse| answer.code.is_some() || answer.error.is_some();
        OcsfApi {
            operation: about.operation.clone(),
            service: about.document.or(self.root).map(|pin| ApiService {
                name: pin.name.to_string(),
                version: pin.version.to_string(),
                uid: pin.checksum.to_string(),
            }),
            request: about.execution_id.map(|uid| ApiRequest { uid }),
            response: response.filter(says),
        }
    }

    fn actor(&self) -> OcsfActor {
        let agent = executor_agent();
        let user = match self.principal {
            Some(principal) => OcsfUser {
                uid: principal.to_string(),
                name: principal.user_id().to_owned(),
                type_id: 1,
                kind: "User",
            },
            None => OcsfUser { uid: agent.id, name: agent.name, type_id: 99, kind: "AI Agent" },
        };
        OcsfActor {
            user,
            session: OcsfSession { uid: shorten_text(self.session) },
            app_name: "a2s-executor",
        }
    }

    fn source(&self) -> SourceEndpoint {
        let agent = executor_agent();
        SourceEndpoint {
            uid: agent.id,
            name: agent.name,
            svc_name: shorten_text(&self.product.service),
            type_id: 99,
            kind: "AI Agent",
        }
    }
}

/// Converts a decision to the terms of AOS.
pub(super) fn to_aos_decision(decision: &DecisionRecord, method: &'static str) -> AosDecision {
    AosDecision {
        method,
        guardian: decision.guardian.as_deref().map(shorten_text),
        decision: shorten_text(&decision.decision),
        source: decision.source.as_str(),
        message: shorten_text(&decision.message),
        reason_code: decision.reason_codes.iter().map(|code| shorten_text(code)).collect(),
        changed: decision.changes.iter().map(|change| shorten_text(&change.name)).collect(),
    }
}
