//! The services of one process, built in order: the parts list of `up`, `serve` and `demo`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use a2s::Secret;
use a2s_api::{AuthGuard, Caller, TokenIntrospector};
use a2s_api::{add_defaults, add_error_responses, flatten_unions};
use axum::Router;
use axum::routing::get;
use indicatif::{ProgressBar, ProgressStyle};
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use url::Url;
use utoipa::OpenApi as _;

use super::bundled_capabilities::bundled_documents;
use super::connections::{ConnectionMetrics, HttpServer};
#[cfg(feature = "console")]
use super::console::{self, Console};
use super::data_dir::DataFolder;
use super::dependencies::RemoteDependencies;
use super::examples::add_examples;
use super::identity::{GuardianTokenIntrospector, guard_protocol};
use super::middleware::{AccessPolicy, with_middleware};
use super::readiness::{self, ReadinessCheck};
use super::shipping::{DocumentPublisher, ShippingProgress, start_shipping};
use crate::cli_error::{CliError, CliExitCode};
use crate::client::{TokenTransport, client};
use crate::clock::{self, SystemClockAndIds};
use crate::settings::{
    AgentConfig, ConnectionLimits, GuardianSelection, RegistryAccess, RemoteServices,
    check_not_owner, has_policy_files, policy_failure,
};

/// The time for runs and responses in progress when the process stops.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);
/// The interval at which a person sees the progress of an index.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// The interval between checks of the policy file for changes.
const POLICY_INTERVAL: Duration = Duration::from_secs(2);

/// The services of a process.
#[derive(Debug, Default)]
pub(crate) struct ServiceSettings {
    pub(crate) registry: Option<registry::Config>,
    pub(crate) executor: Option<ExecutorPart>,
    /// A standalone guardian.
    pub(crate) guardian: Option<StandaloneGuardian>,
    /// The agent, in addition to registry and executor.
    pub(crate) agent: Option<AgentConfig>,
    /// Set when the shipped documents are published, as far as the registry lacks them.
    pub(crate) ship: bool,
    /// The connections over which tokens may be sent.
    pub(crate) transport: TokenTransport,
}

/// An executor, with the services that it uses.
#[derive(Debug)]
pub(crate) struct ExecutorPart {
    pub(crate) config: executor::Config,
    /// The registry; none for the one of this process.
    pub(crate) registry: Option<RegistryAccess>,
    pub(crate) guardians: GuardianSelection,
    /// The guardian of this process, when it is among them.
    pub(crate) builtin_guardian: Option<guardian::Config>,
}

/// A standalone guardian.
#[derive(Debug)]
pub(crate) struct StandaloneGuardian {
    pub(crate) config: guardian::Config,
    /// The token of clients that may ask and not approve.
    pub(crate) client_token: Option<Secret>,
    /// A registry: its tokens of the scope `guard` may ask as well.
    pub(crate) registry: Option<RegistryAccess>,
}

impl ServiceSettings {
    pub(crate) fn is_unguarded(&self) -> bool {
        let apart = self.remote_services();
        let of_agent = apart.map(|services| &services.guardians);
        let guardians = self.executor.as_ref().map(|part| &part.guardians).or(of_agent);
        guardians.is_some_and(|guardians| matches!(guardians, GuardianSelection::Off))
    }

    /// Checks that each token goes over a protected connection, and that no token for another service is
    /// the token of the `owner`.
    fn check_tokens(&self, owner: &str) -> Result<(), CliError> {
        if let Some(part) = &self.registry {
            check_not_owner(part.service_token.as_ref(), "--service-token", owner)?;
        }
        let registries = [
            self.executor.as_ref().and_then(|part| part.registry.as_ref()),
            self.guardian.as_ref().and_then(|part| part.registry.as_ref()),
            self.remote_services().map(|it| &it.registry),
        ];
        for RegistryAccess { url, token, .. } in registries.into_iter().flatten() {
            if token.is_some() {
                self.transport.check(url, "the token of --registry-token")?;
            }
            check_not_owner(token.as_ref(), "--registry-token", owner)?;
        }
        if let Some(part) = &self.executor {
            part.guardians.check_tokens(self.transport, owner)?;
        }
        if let Some(part) = &self.guardian {
            check_not_owner(part.client_token.as_ref(), "--guardian-token", owner)?;
        }
        self.agent.as_ref().map_or(Ok(()), |part| part.check_tokens(self.transport))
    }

    /// Returns the services of other processes that a standalone agent uses.
    fn remote_services(&self) -> Option<&RemoteServices> {
        self.agent.as_ref()?.services.as_ref()
    }

    /// Returns the name of the services in this process, for use in a sentence.
    fn name(&self) -> &'static str {
        match (&self.registry, &self.executor, &self.guardian) {
            (Some(_), Some(_), _) => "a process with all services",
            (Some(_), None, _) => "a registry",
            (None, Some(_), _) => "an executor",
            (None, None, Some(_)) => "a guardian",
            (None, None, None) => "an agent",
        }
    }

    /// Returns true when there is an owner with a token that opens everything. A standalone agent has none:
    /// its callers are the registry's.
    pub(crate) fn has_owner(&self) -> bool {
        self.remote_services().is_none()
    }

    /// Gives the services of one process a token for each other, which no other program knows. The executor
    /// uses it for its requests to the registry of this process.
    fn share_token(&mut self, url: &Url) {
        let (Some(registry), Some(executor)) = (&mut self.registry, &mut self.executor) else {
            return;
        };
        let token = Some(Secret::new(clock::random_token()));
        registry.service_token.clone_from(&token);
        executor.registry = Some(RegistryAccess { url: url.clone(), token, admins: false });
    }

    /// Returns the introspector for tokens of a separate registry, and for a guardian's own token.
    fn remote_introspector(&self) -> Result<Option<Arc<dyn TokenIntrospector>>, CliError> {
        if let Some(StandaloneGuardian { client_token: asking, registry, .. }) = &self.guardian {
            let others = registry.as_ref().map(RegistryAccess::callers).transpose()?.flatten();
            return Ok(Some(Arc::new(GuardianTokenIntrospector::new(asking.clone(), others))));
        }
        if let Some(services) = self.remote_services() {
            return services.callers().map(Some);
        }
        let registry = self.executor.as_ref().and_then(|part| part.registry.as_ref());
        let callers = registry.map(RegistryAccess::executor_callers).transpose()?.flatten();
        if registry.is_some() && callers.is_none() {
            tracing::warn!(
                "--registry-token is not set: this service rejects tokens of the registry, and the registry \
                 receives no outcomes (docs/operations.md)"
            );
        }
        Ok(callers)
    }

    /// Returns clients for the services in other processes, each with its role. They send the token of this
    /// process.
    fn remote_clients(&self) -> Result<Vec<(&'static str, agent::ServiceClient)>, CliError> {
        if let Some(services) = self.remote_services() {
            let executor = services.clients()?.executor;
            return Ok(vec![("registry", services.registry.client()?), ("executor", executor)]);
        }
        // One in this process is a part of it.
        let registry = self.executor.as_ref().and_then(|part| part.registry.as_ref());
        let registry = registry.filter(|_| self.registry.is_none());
        let of_guardian = self.guardian.as_ref().and_then(|part| part.registry.as_ref());
        let registry = registry.or(of_guardian);
        registry.map(|registry| Ok(("registry", registry.client()?))).into_iter().collect()
    }

    /// Returns the guardians that executor and agent ask; `own` is the guardian of this process.
    fn guardians(
        &self,
        own: Option<&guardian::App>,
    ) -> Result<executor::GuardianSettings, CliError> {
        if let Some(part) = &self.executor {
            let max_response_bytes = part.config.limits.max_response_bytes;
            return part.guardians.clone().into_config(own, max_response_bytes);
        }
        let apart = self.remote_services();
        let guardians = apart.map_or(GuardianSelection::Off, |services| services.guardians.clone());
        guardians.into_config(own, executor::Limits::default().max_response_bytes)
    }

    /// Opens every service, after those that it uses, and adds its routes to `http`.
    async fn open(
        mut self,
        url: &Url,
        token: &str,
        http: &mut HttpSurface,
        stop: &CancellationToken,
    ) -> Result<OpenServices, CliError> {
        self.share_token(url);
        let apart = self.remote_introspector()?;
        let elsewhere = self.remote_clients()?;
        let registry = match self.registry.take() {
            Some(config) => {
                let app = open_registry(config, token, &mut http.metrics).await?;
                http.add(app.routes(), registry::App::openapi());
                Some(app)
            }
            None => None,
        };
        // A registry in this process is asked for callers without HTTP.
        let others = registry.as_ref().map(registry::App::token_introspector).or(apart);
        let auth =
            AuthGuard { owner_token: Some(Secret::new(token)), introspector: others.clone() };
        let guardian = self.open_guardian(token, &auth, http, stop)?;
        let guardians = self.guardians(guardian.as_ref())?;
        let dependencies = RemoteDependencies::new(elsewhere, open_remote(&guardians)?);
        if let Some((agent, others)) = self.agent.zip(others) {
            let clients = match &agent.services {
                Some(services) => services.clients()?,
                None => client(url, Some(token.to_owned()), None)?.into(),
            };
            let routes = agent.open(clients, &guardians, Secret::new(token), others, stop)?;
            http.add(routes, agent::App::openapi());
            #[cfg(feature = "a2a")]
            http.description.merge(a2a::App::openapi());
        }
        let executor = match self.executor {
            Some(part) => {
                let auth = auth.clone();
                let app = open_executor(part, guardians, url, auth, &mut http.metrics).await?;
                http.add(app.router(), executor::App::openapi());
                Some(app)
            }
            None => None,
        };
        let apps = ServiceApps { registry, executor, guardian };
        Ok(OpenServices { apps, dependencies, auth })
    }

    /// Opens the guardian that runs in this process, if there is one.
    fn open_guardian(
        &mut self,
        token: &str,
        auth: &AuthGuard,
        http: &mut HttpSurface,
        stop: &CancellationToken,
    ) -> Result<Option<guardian::App>, CliError> {
        let builtin = self.executor.as_mut().and_then(|part| part.builtin_guardian.take());
        let asking = self.guardian.as_ref().and_then(|part| part.client_token.as_ref());
        let client_token = asking.map(|token| guardian::TokenDigest::new(token.expose_secret()));
        let Some(config) = self.guardian.as_ref().map(|part| part.config.clone()).or(builtin)
        else {
            return Ok(None);
        };
        let config = guardian::Config {
            token: Some(guardian::TokenDigest::new(token)),
            client_token,
            ..config
        };
        let has_files = has_policy_files(&config);
        let metrics = http.metrics.sub_registry_with_prefix("guardian");
        let app =
            guardian::App::open(config, clock::now, metrics).map_err(|error| match &error {
                guardian::Error::PolicyInvalid { path: Some(path), faults } => {
                    policy_failure(path, faults)
                }
                error => cannot_serve(error),
            })?;
        let protocol = guard_protocol(app.protocol_routes(), auth.clone());
        http.add(protocol.merge(app.api_routes()), guardian::App::openapi());
        if has_files {
            tokio::spawn(watch_policy(app.clone(), stop.clone()));
        }
        Ok(Some(app))
    }
}

/// The HTTP API of a process: the services add their routes to it.
struct HttpSurface {
    routes: Router,
    description: utoipa::openapi::OpenApi,
    metrics: Registry,
}

impl HttpSurface {
    fn new() -> Self {
        Self {
            routes: Router::new(),
            description: ApiDescription::openapi(),
            metrics: Registry::with_prefix("a2s"),
        }
    }

    /// Adds the routes of a service, and their description.
    fn add(&mut self, routes: Router, description: utoipa::openapi::OpenApi) {
        self.routes = std::mem::take(&mut self.routes).merge(routes);
        self.description.merge(description);
    }

    /// Returns the server of all routes for the services called `name`.
    fn into_server(
        mut self,
        access: AccessPolicy,
        limits: ConnectionLimits,
        stop: CancellationToken,
        name: &'static str,
    ) -> HttpServer {
        let connections = ConnectionMetrics::register(&mut self.metrics);
        add_error_responses(&mut self.description);
        flatten_unions(&mut self.description);
        add_defaults(&mut self.description);
        add_examples(&mut self.description);
        let router = with_middleware(self.routes, self.metrics, self.description, access, name);
        HttpServer::new(router, limits, connections, stop)
    }
}

/// Running services.
#[derive(Debug)]
pub(crate) struct RunningServices {
    url: Url,
    services: Arc<ServiceApps>,
    stop: CancellationToken,
    server: JoinHandle<()>,
    #[cfg(feature = "console")]
    console: Arc<Console>,
    /// The data folder, which stays locked as long as the services run.
    _folder: Arc<DataFolder>,
}

/// The services of one process.
#[derive(Debug)]
pub(super) struct ServiceApps {
    pub(super) registry: Option<registry::App>,
    pub(super) executor: Option<executor::App>,
    pub(super) guardian: Option<guardian::App>,
}

/// The services before the process listens.
struct OpenServices {
    apps: ServiceApps,
    dependencies: RemoteDependencies,
    /// The check of callers, for all routes.
    auth: AuthGuard,
}

impl DocumentPublisher for Arc<ServiceApps> {
    async fn publish(&self, source: Vec<u8>) -> Result<bool, registry::Error> {
        match &self.registry {
            Some(registry) => Ok(registry.publish(source, &Caller::owner()).await?.created),
            None => Ok(false),
        }
    }
}

impl RunningServices {
    /// Opens every part and serves it on `listener`.
    pub(crate) async fn start(
        listener: TcpListener,
        folder: Arc<DataFolder>,
        parts: ServiceSettings,
        token: String,
        allow_hosts: &[String],
        limits: ConnectionLimits,
    ) -> Result<Self, CliError> {
        let listen = listener.local_addr().map_err(|error| cannot_serve(&error))?;
        let url = own_url(listen)?;
        let stop = CancellationToken::new();
        let mut http = HttpSurface::new();

        parts.check_tokens(&token)?;
        let (name, ship) = (parts.name(), parts.ship);
        let OpenServices { apps, dependencies, auth } =
            parts.open(&url, &token, &mut http, &stop).await?;
        let services = Arc::new(apps);
        let shipping = (ship && services.registry.is_some())
            .then(|| start_shipping(Arc::clone(&services), bundled_documents(), stop.clone()));
        let readiness = ReadinessCheck::new(Arc::clone(&services), shipping.clone(), dependencies);
        http.routes = http.routes.merge(
            Router::new()
                .route("/healthz", get(async || "ok\n"))
                .route("/readyz", get(readiness::show))
                .with_state(readiness),
        );
        #[cfg(feature = "console")]
        let console = Arc::new(Console::new(auth.clone(), &token, listen.port()));
        let access = AccessPolicy::new(listen, allow_hosts, auth);
        #[cfg(feature = "console")]
        let access = access.with_console(Arc::clone(&console));
        let server = http.into_server(access, limits, stop.clone(), name);
        let server = tokio::spawn(server.serve(listener));
        if let Some(mut shipping) = shipping {
            // After a failure it continues in the background.
            let _ = shipping.wait_for(|shipping| *shipping != ShippingProgress::UnderWay).await;
        }
        Ok(Self {
            url,
            services,
            stop,
            server,
            #[cfg(feature = "console")]
            console,
            _folder: folder,
        })
    }

    /// Returns the number of capabilities in the registry; none without a registry.
    pub(crate) async fn capabilities(&self) -> Option<usize> {
        Some(self.services.registry.as_ref()?.index_status().await.ok()?.points)
    }

    /// Returns the address that signs one browser in as the holder of this token.
    #[cfg(feature = "console")]
    pub(crate) fn sign_in_link(&self, token: &str) -> String {
        console::sign_in_link(&self.url, &self.console.create_code(token))
    }

    /// The address of the services.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Stops everything: runs have [`SHUTDOWN_GRACE`] to end, then the streams and the listener close.
    pub(crate) async fn stop(self) {
        // Runs may need the guardian and the registry of this process until they have left.
        if let Some(executor) = &self.services.executor {
            executor.shutdown(SHUTDOWN_GRACE).await;
        }
        if let Some(registry) = &self.services.registry {
            registry.end_streams();
        }
        self.stop.cancel();
        let mut server = self.server;
        // A client that keeps its connection open does not keep the process.
        if tokio::time::timeout(SHUTDOWN_GRACE, &mut server).await.is_err() {
            server.abort();
        }
        if let Some(registry) = &self.services.registry {
            registry.close().await;
        }
        if let Some(guardian) = &self.services.guardian {
            guardian.flush().await;
        }
    }
}

/// Opens the guardians among these that run in other processes.
fn open_remote(
    guardians: &executor::GuardianSettings,
) -> Result<Option<aos::GuardianChain>, CliError> {
    let executor::GuardianSettings::Chain(configs) = guardians else { return Ok(None) };
    let is_remote = |config: &&executor::GuardianConfig| {
        matches!(config.endpoint, executor::GuardianEndpoint::Http(_))
    };
    let remote: Vec<_> = configs.iter().filter(is_remote).cloned().collect();
    if remote.is_empty() {
        return Ok(None);
    }
    executor::GuardianSettings::Chain(remote).open().map_err(|error| executor_failed(&error))
}

/// Rebuilds the search index in a folder, and returns the number of capabilities in it. On a terminal it
/// shows the progress.
pub(super) async fn reindex(config: registry::Config) -> Result<usize, CliError> {
    let app = open_registry(config, "", &mut Registry::default()).await?;
    // The bar is hidden without a terminal.
    let bar = ProgressBar::new(0);
    let bar = match ProgressStyle::with_template("{bar:40} {pos}/{len} {eta}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    };
    let mut ticks = tokio::time::interval(PROGRESS_INTERVAL);
    let reindexed = app.reindex();
    tokio::pin!(reindexed);
    let indexed = loop {
        tokio::select! {
            indexed = &mut reindexed => break indexed,
            _ = ticks.tick() => if let Some(building) = app.building() {
                bar.set_length(building.total);
                bar.set_position(building.done);
            },
        }
    };
    bar.finish_and_clear();
    let indexed = indexed.map_err(|error| registry_failed(&error));
    app.close().await;
    indexed
}

async fn open_registry(
    config: registry::Config,
    token: &str,
    metrics: &mut Registry,
) -> Result<registry::App, CliError> {
    let config = registry::Config { token: Some(Secret::new(token)), ..config };
    let clock: registry::Clock = Arc::new(clock::now);
    let metrics = metrics.sub_registry_with_prefix("registry");
    registry::App::open(config, clock, metrics).await.map_err(|error| registry_failed(&error))
}

async fn open_executor(
    part: ExecutorPart,
    guardian: executor::GuardianSettings,
    own_url: &Url,
    auth: AuthGuard,
    metrics: &mut Registry,
) -> Result<executor::App, CliError> {
    let own = || RegistryAccess { url: own_url.clone(), token: None, admins: false };
    let RegistryAccess { url: registry, token: registry_token, .. } =
        part.registry.unwrap_or_else(own);
    let config = executor::Config {
        registry,
        registry_token,
        guardian,
        token: auth.owner_token,
        introspector: auth.introspector,
        ..part.config
    };
    let metrics = metrics.sub_registry_with_prefix("executor");
    Box::pin(executor::App::open(
        config,
        Arc::new(SystemClockAndIds),
        Arc::new(SystemClockAndIds),
        metrics,
    ))
    .await
    .map_err(|error| executor_failed(&error))
}

/// Loads the policy again when its file changes. If the new policy has errors, the old one stays in effect.
async fn watch_policy(app: guardian::App, stop: CancellationToken) {
    let mut interval = tokio::time::interval(POLICY_INTERVAL);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = interval.tick() => {}
        }
        match app.reload_policy().await {
            Ok(true) => tracing::info!("the guardian uses the changed policy"),
            Ok(false) => {}
            Err(error) => {
                let error = error_chain(&error);
                tracing::error!(
                    error,
                    "the changed policy has errors; the guardian keeps the old policy"
                )
            }
        }
    }
}

/// The address at which this process reaches itself.
fn own_url(listen: SocketAddr) -> Result<Url, CliError> {
    let ip =
        if listen.ip().is_unspecified() { IpAddr::V4(Ipv4Addr::LOCALHOST) } else { listen.ip() };
    let address = SocketAddr::new(ip, listen.port());
    Url::parse(&format!("http://{address}/")).map_err(|error| cannot_serve(&error))
}

/// Converts an error without a code of its own that keeps a service from starting.
fn cannot_serve(error: &dyn std::error::Error) -> CliError {
    CliError::cannot_serve(error_chain(error))
}

fn registry_failed(error: &registry::Error) -> CliError {
    CliError::new(CliExitCode::Bad, *error.code(), error_chain(error))
}

fn executor_failed(error: &executor::Error) -> CliError {
    CliError::new(CliExitCode::Bad, *error.kind.code(), error_chain(error))
        .with_hint(error.hint.as_str())
}

/// Joins the messages of an error and its causes, for the operator who starts a service. Callers of the API
/// do not see the causes.
pub(super) fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The head of the API description; the services add their operations.
#[derive(utoipa::OpenApi)]
#[openapi(info(
    title = "A2S",
    description = "Publish capabilities, find them by intent, and run them under the control of a guardian.",
    license(name = "MIT", identifier = "MIT")
))]
struct ApiDescription;
