//! Builds security events: the data that all events of a run share, and the specific data of each.

use a2s::Principal;
use a2s::api::{CapabilityRef, Decision, DecisionSource, GuardianPhase};
use jiff::Timestamp;
use uuid::Uuid;

use super::super::context::{RunTrace, SpanId};
use super::super::span::short;
use super::Product;
use super::event::{
    Actor, Analytic, Aos, AosDecision, Api, ApiActivity, ApiRequest, ApiResponse, ApiService,
    Destination, Event, Evidence, Finding, FindingInfo, Metadata, MetadataProduct, Session,
    Severity, Source, Status, Told, Trace, TraceSpan, User, VERSION,
};
use crate::gate::agent;

/// The data that all events of a run share.
pub(super) struct Scene<'e> {
    /// The principal that the run belongs to, as far as it is known.
    pub(super) principal: Option<&'e Principal>,
    pub(super) run: Uuid,
    pub(super) session: &'e str,
    pub(super) root: Option<&'e CapabilityRef>,
    pub(super) trace: RunTrace,
    pub(super) product: &'e Product,
}

/// The subject of one event.
pub(super) struct About<'e> {
    pub(super) operation: String,
    /// The capability that it belongs to.
    pub(super) document: Option<&'e CapabilityRef>,
    pub(super) step: &'e str,
    pub(super) tool: Option<String>,
    pub(super) execution_id: Option<Uuid>,
    /// Its span, with begin and end.
    pub(super) span: Option<(SpanId, Timestamp, Timestamp)>,
    pub(super) destination: Option<Destination>,
}

/// The time of an event, with its number and id.
pub(super) struct Moment {
    pub(super) at: Timestamp,
    pub(super) seq: Option<u64>,
    pub(super) uid: Uuid,
}

impl Scene<'_> {
    /// An id that is the same whenever the same event is reported.
    pub(super) fn uid(&self, name: &str) -> Uuid {
        Uuid::new_v5(&self.run, format!("ocsf {name}").as_bytes())
    }

    pub(super) fn told(
        &self,
        moment: &Moment,
        about: &About<'_>,
        severity: Severity,
        decisions: Vec<AosDecision>,
    ) -> Told {
        let trace = about.span.map(|(span, start, end)| Trace {
            uid: self.trace.trace.to_string(),
            span: TraceSpan {
                uid: span.to_string(),
                start_time: start.as_millisecond(),
                end_time: end.as_millisecond(),
            },
        });
        Told {
            severity,
            time: moment.at.as_millisecond(),
            message: String::new(),
            metadata: Metadata {
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
            status: Status::Success,
            status_code: None,
            status_detail: None,
            trace,
            aos: Aos {
                session_id: short(self.session),
                turn_id: self.run,
                step_id: short(about.step),
                tool_id: about.tool.clone(),
                execution_id: about.execution_id,
                root: self.root.cloned(),
                attempts: None,
                request_digest: None,
                decisions,
            },
        }
    }

    pub(super) fn activity(&self, about: &About<'_>, response: ApiResponse) -> ApiActivity {
        ApiActivity {
            actor: self.actor(),
            api: self.api(about, Some(response)),
            src_endpoint: self.source(),
            dst_endpoint: about.destination.clone(),
            http_request: None,
            http_response: None,
        }
    }

    /// The finding that a decision is, unless it is a plain yes.
    pub(super) fn finding(
        &self,
        moment: &Moment,
        about: &About<'_>,
        decision: &Decision,
        method: &'static str,
    ) -> Option<Event> {
        let (severity, is_alert, action, disposition) = match (&*decision.decision, decision.source)
        {
            ("deny", _) => (Severity::High, true, (2, "Denied"), (2, "Blocked")),
            ("modify", _) => (Severity::Low, false, (4, "Modified"), (11, "Corrected")),
            (_, DecisionSource::FailedOpen) => {
                (Severity::Medium, true, (1, "Allowed"), (16, "No Action"))
            }
            _ => return None,
        };
        let did = match (&*decision.decision, decision.source) {
            ("deny", DecisionSource::Guardian) => "denied",
            ("deny", _) => "gave no usable answer, which denies",
            ("modify", _) => "changed",
            _ => "gave no usable answer, which lets pass",
        };
        let what = match decision.phase {
            GuardianPhase::Request => "the request of",
            GuardianPhase::Result => "the result of",
            GuardianPhase::McpOutbound => "the MCP message of",
            GuardianPhase::McpInbound => "the MCP answer of",
            GuardianPhase::Trigger | GuardianPhase::Memory => "",
        };
        let title = format!("The guardian {did} {what} {}", about.operation).replace("  ", " ");
        let guardian = short(decision.guardian.as_deref().unwrap_or_default());
        let mut told = self.told(moment, about, severity, vec![spoken(decision, method)]);
        told.message.clone_from(&title);
        let finding = Finding {
            finding_info: FindingInfo {
                uid: moment.uid,
                title,
                desc: short(&decision.message),
                created_time: moment.at.as_millisecond(),
                types: decision.reason_codes.iter().map(|code| short(code)).collect(),
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
        Some(Event::finding(finding, told))
    }

    fn api(&self, about: &About<'_>, response: Option<ApiResponse>) -> Api {
        let says = |answer: &ApiResponse| answer.code.is_some() || answer.error.is_some();
        Api {
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

    fn actor(&self) -> Actor {
        let agent = agent();
        let user = match self.principal {
            Some(principal) => User {
                uid: principal.to_string(),
                name: principal.user_id().to_owned(),
                type_id: 1,
                kind: "User",
            },
            None => User { uid: agent.id, name: agent.name, type_id: 99, kind: "AI Agent" },
        };
        Actor { user, session: Session { uid: short(self.session) }, app_name: "a2s-executor" }
    }

    fn source(&self) -> Source {
        let agent = agent();
        Source {
            uid: agent.id,
            name: agent.name,
            svc_name: short(&self.product.service),
            type_id: 99,
            kind: "AI Agent",
        }
    }
}

/// A decision in the words of AOS.
pub(super) fn spoken(decision: &Decision, method: &'static str) -> AosDecision {
    AosDecision {
        method,
        guardian: decision.guardian.as_deref().map(short),
        decision: short(&decision.decision),
        source: decision.source.as_str(),
        message: short(&decision.message),
        reason_code: decision.reason_codes.iter().map(|code| short(code)).collect(),
        changed: decision.changes.iter().map(|change| short(&change.name)).collect(),
    }
}
