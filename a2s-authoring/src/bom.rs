//! Bills of materials: all components of a capability, in CycloneDX 1.6.
//!
//! | of A2S | in CycloneDX |
//! |---|---|
//! | the capability | `metadata.component`: an application with its checksum |
//! | each direct or indirect dependency, as resolved | a component with its checksum |
//! | each task step | a component: a tool, as guardians call it |
//! | each host | a service with its endpoints, credentials and operations |
//! | uses between them | `dependencies` |
//!
//! The checksum of a capability covers its canonical content (see [`Digest`]). It is the same for every
//! file with this content, and it is the checksum that runs use and guardians receive. References are
//! derived from checksums and names: the same capabilities give the same bytes.

mod cyclonedx;

use std::collections::{BTreeMap, BTreeSet};

use a2s::{
    Capability, CapabilityRef, DependencyIndex, Digest, Document, SecurityRequirement,
    SecurityScheme, Step, Task, TaskStep,
};
use jiff::Timestamp;
use uuid::Uuid;

use cyclonedx::{
    BomDependency, BomMetadata, BomProperty, BomService, BomTools, Component, Contact, Hash,
};

pub use cyclonedx::Bom;

impl Bom {
    /// The bill of a document. `below` contains documents that it may depend on, and `shelf` has their
    /// versions. For a dependency that is not in `below`, the bill contains only name, version and
    /// checksum. It contains `made_at` when given.
    #[must_use]
    pub fn of(
        root: &Document,
        below: &[Document],
        index: &DependencyIndex,
        made_at: Option<Timestamp>,
    ) -> Self {
        let documents: BTreeMap<_, _> = below.iter().map(|one| (one.digest(), one)).collect();
        let mut pins = index.closure(&root.capability().dependencies);
        // Linking reports such a cycle; here it is listed once.
        pins.retain(|pin| pin.checksum != root.digest());
        let mut bill = BomBuilder::new(index);
        bill.add(root);
        let mut components: Vec<Component> = pins
            .iter()
            .map(|pin| match documents.get(&pin.checksum) {
                Some(document) => {
                    bill.add(document);
                    capability_component(document)
                }
                None => {
                    bill.uses.entry(reference(pin.checksum)).or_default();
                    dependency_component(pin)
                }
            })
            .collect();
        let BomBuilder { tools, services, uses, index: _ } = bill;
        components.extend(tools);
        Self {
            bom_format: "CycloneDX",
            spec_version: "1.6",
            serial_number: serial_number(root.digest(), &pins),
            version: 1,
            metadata: BomMetadata {
                timestamp: made_at,
                tools: BomTools { components: [generator_component()] },
                component: capability_component(root),
            },
            components,
            services: services
                .into_iter()
                .map(|(host, spoken)| spoken.into_service(&host))
                .collect(),
            dependencies: uses
                .into_iter()
                .map(|(reference, on)| BomDependency {
                    reference,
                    depends_on: on.into_iter().collect(),
                })
                .collect(),
        }
    }
}

/// The data collected from one document after the other.
struct BomBuilder<'b> {
    index: &'b DependencyIndex,
    tools: Vec<Component>,
    services: BTreeMap<String, HostUsage>,
    /// The references that each component uses, by its reference.
    uses: BTreeMap<String, BTreeSet<String>>,
}

/// The collected facts about the requests to a host.
#[derive(Default)]
struct HostUsage {
    titles: BTreeSet<String>,
    endpoints: BTreeSet<String>,
    /// True when any of these requests needs a credential.
    wants_credential: bool,
    properties: BTreeSet<BomProperty>,
}

impl<'b> BomBuilder<'b> {
    fn new(index: &'b DependencyIndex) -> Self {
        Self { index, tools: Vec::new(), services: BTreeMap::new(), uses: BTreeMap::new() }
    }

    /// Adds the items that a document uses: other capabilities, tools, and the services of the tools.
    fn add(&mut self, document: &Document) {
        let capability = document.capability();
        let own = reference(document.digest());
        let chosen = capability.dependencies.iter().filter_map(|dependency| {
            let versions = self.index.versions(&dependency.capability)?;
            dependency.select_version(versions).map(|listing| reference(listing.checksum))
        });
        let mut uses: BTreeSet<String> = chosen.collect();
        capability.for_each_task(|step, TaskStep { task, .. }| {
            let tool = format!("{own}#{}", step.id);
            self.tools.push(tool_component(&tool, capability, step, task));
            let host = host_of(task);
            self.uses.entry(tool.clone()).or_default().insert(service_reference(&host));
            self.uses.entry(service_reference(&host)).or_default();
            uses.insert(tool);
            self.services.entry(host).or_default().add_task(task);
        });
        self.uses.entry(own).or_default().extend(uses);
    }
}

impl HostUsage {
    fn add_task(&mut self, task: &Task) {
        self.titles.extend(task.service_title().map(str::to_owned));
        self.endpoints.insert(task.url().to_string());
        self.properties.insert(property("a2s:format", &task.format()));
        self.properties.insert(property("a2s:operation", &operation(task)));
        let is_open =
            |ways: &[Vec<SecurityRequirement>]| ways.is_empty() || ways.iter().any(Vec::is_empty);
        self.wants_credential |= !is_open(task.security());
        for scheme in task.security().iter().flatten() {
            let kind = scheme.scheme.as_ref().map_or("unknown", kind_of);
            self.properties
                .insert(property("a2s:security-scheme", &format_args!("{} ({kind})", scheme.name)));
        }
    }

    fn into_service(self, host: &str) -> BomService {
        let titles: Vec<_> = self.titles.into_iter().collect();
        BomService {
            reference: service_reference(host),
            name: host.to_owned(),
            description: (!titles.is_empty()).then(|| titles.join("; ")),
            endpoints: self.endpoints.into_iter().collect(),
            authenticated: self.wants_credential,
            // Different parties run the capability and serve the host.
            crosses_trust_boundary: true,
            properties: self.properties.into_iter().collect(),
        }
    }
}

fn capability_component(document: &Document) -> Component {
    let capability = document.capability();
    let mut properties = vec![property("a2s:kind", "capability")];
    properties.push(property("a2s:language", &capability.language));
    properties.extend(capability.domains.iter().map(|host| property("a2s:domain", host)));
    properties.extend(capability.permissions.iter().map(|held| property("a2s:permission", held)));
    Component {
        authors: capability
            .authors
            .iter()
            .map(|author| Contact {
                name: author.name.clone(),
                email: author.email.clone().filter(|email| email.contains('@')),
            })
            .collect(),
        description: Some(capability.description.clone()),
        properties,
        ..dependency_component(&document.to_ref())
    }
}

fn dependency_component(pin: &CapabilityRef) -> Component {
    Component {
        reference: Some(reference(pin.checksum)),
        name: pin.name.to_string(),
        version: Some(pin.version.to_string()),
        hashes: vec![Hash { alg: "SHA-256", content: pin.checksum.to_hex() }],
        properties: vec![property("a2s:kind", "capability")],
        ..Component::default()
    }
}

fn tool_component(reference: &str, capability: &Capability, step: &Step, task: &Task) -> Component {
    let summary = match task {
        Task::OpenApi(task) => task.summary.clone(),
        Task::Graphql(_) => None,
        Task::Mcp(task) => task.description.clone(),
    };
    Component {
        reference: Some(reference.to_owned()),
        // As guardians call it.
        name: format!("{}.{}", capability.name, step.id),
        version: Some(capability.version.to_string()),
        description: summary,
        properties: vec![
            property("a2s:kind", "tool"),
            property("a2s:format", &task.format()),
            property("a2s:operation", &operation(task)),
            property("a2s:read-only", &task.is_read_only()),
        ],
        ..Component::default()
    }
}

/// Describes the program that writes the bill.
fn generator_component() -> Component {
    Component {
        name: "a2s".to_owned(),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        ..Component::default()
    }
}

/// Returns the operation of a task: `GET /breeds`, `query Countries`, `tools/call get_forecast`.
fn operation(task: &Task) -> String {
    match task {
        Task::OpenApi(task) => format!("{} {}", task.method.as_str(), task.path),
        Task::Graphql(task) => {
            let kind = if task.is_mutation { "mutation" } else { "query" };
            let name = task.operation_name.as_ref();
            name.map_or_else(|| kind.to_owned(), |name| format!("{kind} {name}"))
        }
        Task::Mcp(task) => format!("tools/call {}", task.tool),
    }
}

/// The kind of a scheme, in the words of OpenAPI.
fn kind_of(scheme: &SecurityScheme) -> &'static str {
    match scheme {
        SecurityScheme::ApiKey { .. } => "apiKey",
        SecurityScheme::Http { .. } => "http",
        SecurityScheme::OAuth2(_) => "oauth2",
        SecurityScheme::OpenIdConnect { .. } => "openIdConnect",
        SecurityScheme::MutualTls => "mutualTLS",
    }
}

/// Returns the host, with its port if it has one, as in `domains`.
fn host_of(task: &Task) -> String {
    let url = task.url();
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn reference(digest: Digest) -> String {
    digest.to_string()
}

fn service_reference(host: &str) -> String {
    format!("service:{host}")
}

fn property(name: &'static str, value: &(impl ToString + ?Sized)) -> BomProperty {
    BomProperty { name, value: value.to_string() }
}

/// Computes the id of the bill from these contents and the version of the program.
fn serial_number(root: Digest, pins: &[CapabilityRef]) -> Uuid {
    let mut name = format!("bom {}\n{root}\n", env!("CARGO_PKG_VERSION"));
    let digests: BTreeSet<_> = pins.iter().map(|pin| pin.checksum.to_string()).collect();
    digests.iter().for_each(|digest| {
        name.push_str(digest);
        name.push('\n');
    });
    Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes())
}

#[cfg(test)]
mod tests;
