package a2s

import (
	"context"
	"encoding/json"
	"time"
)

// ListApprovals returns the approvals with a status, such as `pending` or `all`. Without a status, they
// are those that wait, and those that are decided and not used.
func (r *Registry) ListApprovals(ctx context.Context, status string) ([]Approval, error) {
	list, err := fetch[ApprovalList](ctx, r, get("approvals").with("status", status))
	if err != nil {
		return nil, err
	}
	return list.Approvals, nil
}

// GetApproval returns an approval.
func (r *Registry) GetApproval(ctx context.Context, id string) (*ApprovalStatus, error) {
	return fetch[ApprovalStatus](ctx, r, get("approvals", id))
}

// Approve approves a request that waits. It needs the owner's token of the guardian.
func (r *Registry) Approve(ctx context.Context, id string, decision ApprovalDecisionRequest) (*Approval, error) {
	return fetch[Approval](ctx, r, post("approvals", id, "approve").json(decision))
}

// Reject rejects a request that waits: the run ends with [Denied].
func (r *Registry) Reject(ctx context.Context, id string, decision ApprovalDecisionRequest) (*Approval, error) {
	return fetch[Approval](ctx, r, post("approvals", id, "reject").json(decision))
}

// ListSecrets returns the stored credentials, without their values.
func (r *Registry) ListSecrets(ctx context.Context) ([]StoredCredential, error) {
	list, err := fetch[StoredCredentials](ctx, r, get("secrets"))
	if err != nil {
		return nil, err
	}
	return list.Secrets, nil
}

// SetSecret stores the credential of a host for a security scheme.
func (r *Registry) SetSecret(ctx context.Context, host, scheme string, credential Credential) (*StoredCredential, error) {
	return fetch[StoredCredential](ctx, r, put("secrets", host, scheme).json(credential))
}

// SetSecretUsers sets the grants of a credential. Runs of the owner need none.
func (r *Registry) SetSecretUsers(ctx context.Context, host, scheme string, users CredentialUsers) (*StoredCredential, error) {
	return fetch[StoredCredential](ctx, r, put("secrets", host, scheme, "users").json(users))
}

// DeleteSecret removes a credential.
func (r *Registry) DeleteSecret(ctx context.Context, host, scheme string) error {
	return r.call(ctx, del("secrets", host, scheme), nil)
}

// StateOptions select remembered values. The zero value selects those for all runs of the caller.
type StateOptions struct {
	// Session is the session whose values are meant.
	Session string
	// Everybody means the values for all runs of all callers. Only administrators may change them.
	Everybody bool
}

// state returns the segments of the route of remembered values, and its parameter.
func (o *StateOptions) state(verb func(...string) request, name ...string) request {
	if o == nil {
		o = &StateOptions{}
	}
	segments := []string{"state"}
	if o.Session != "" {
		segments = []string{"sessions", o.Session, "state"}
	}
	q := verb(append(segments, name...)...)
	if o.Everybody {
		q = q.with("for", "everybody")
	}
	return q
}

// ListState returns the remembered values.
func (r *Registry) ListState(ctx context.Context, options *StateOptions) ([]StateEntry, error) {
	list, err := fetch[StateList](ctx, r, options.state(get))
	if err != nil {
		return nil, err
	}
	return list.Entries, nil
}

// SetState remembers a value for inputs with this name.
func (r *Registry) SetState(ctx context.Context, name string, value any, options *StateOptions) (*StateEntry, error) {
	return fetch[StateEntry](ctx, r, options.state(put, name).json(value))
}

// DeleteState forgets a remembered value.
func (r *Registry) DeleteState(ctx context.Context, name string, options *StateOptions) error {
	return r.call(ctx, options.state(del, name), nil)
}

// StateStore has the remembered values of a session, or those that stay.
type StateStore struct {
	registry *Registry
	session  string
}

// NewStateStore returns the remembered values of a session. An empty session means the values for all
// runs of the caller.
func NewStateStore(registry *Registry, session string) *StateStore {
	return &StateStore{registry, session}
}

func (s *StateStore) options() *StateOptions { return &StateOptions{Session: s.session} }

// List returns all values.
func (s *StateStore) List(ctx context.Context) ([]StateEntry, error) {
	return s.registry.ListState(ctx, s.options())
}

// Get returns a value, and whether there is one.
func (s *StateStore) Get(ctx context.Context, name string) (json.RawMessage, bool, error) {
	entries, err := s.List(ctx)
	for _, entry := range entries {
		if entry.Name == name {
			return entry.Value, true, nil
		}
	}
	return nil, false, err
}

// Set remembers a value.
func (s *StateStore) Set(ctx context.Context, name string, value any) error {
	_, err := s.registry.SetState(ctx, name, value, s.options())
	return err
}

// Delete forgets a value.
func (s *StateStore) Delete(ctx context.Context, name string) error {
	return s.registry.DeleteState(ctx, name, s.options())
}

// RecordOutcome reports the end of a run. Executors do this by themselves.
func (r *Registry) RecordOutcome(ctx context.Context, report OutcomeReport) error {
	return r.call(ctx, post("outcomes").json(report), nil)
}

// ListTokens returns the tokens, without their values.
func (r *Registry) ListTokens(ctx context.Context) ([]TokenEntry, error) {
	list, err := fetch[TokenList](ctx, r, get("tokens"))
	if err != nil {
		return nil, err
	}
	return list.Tokens, nil
}

// CreateToken creates a token. Only this response has its value. With an expiry of 0 it does not expire.
func (r *Registry) CreateToken(ctx context.Context, name string, scopes []Scope, expiry time.Duration) (*NewToken, error) {
	body := TokenRequest{Name: name, Scopes: scopes}
	if seconds := int64(expiry / time.Second); seconds > 0 {
		body.ExpiresInS = &seconds
	}
	return fetch[NewToken](ctx, r, post("tokens").json(body))
}

// RevokeToken revokes a token.
func (r *Registry) RevokeToken(ctx context.Context, name string) error {
	q := del("tokens", name)
	q.repeatable = false // the second attempt would not find what the first one has revoked
	return r.call(ctx, q, nil)
}

// IntrospectToken returns the scopes of a token.
func (r *Registry) IntrospectToken(ctx context.Context, token string) (*IntrospectionResponse, error) {
	return fetch[IntrospectionResponse](ctx, r, post("tokens", "introspect").json(IntrospectionRequest{Token: token}))
}

// AcceptTrust accepts another checksum of a version than the one that the executor remembers.
func (r *Registry) AcceptTrust(ctx context.Context, name, version, checksum string) (*TrustedVersion, error) {
	return fetch[TrustedVersion](ctx, r, put("trust", name, version).json(TrustRequest{Checksum: checksum}))
}

// ForgetTrust makes the executor forget the checksum of a version.
func (r *Registry) ForgetTrust(ctx context.Context, name, version string) error {
	return r.call(ctx, del("trust", name, version), nil)
}

// ListHosts returns the state of each host to which the executor sends requests.
func (r *Registry) ListHosts(ctx context.Context) ([]HostState, error) {
	list, err := fetch[HostList](ctx, r, get("hosts"))
	if err != nil {
		return nil, err
	}
	return list.Hosts, nil
}

// TrimAudit removes the entries of the audit log before a time.
func (r *Registry) TrimAudit(ctx context.Context, before time.Time) (*TrimAuditResponse, error) {
	return fetch[TrimAuditResponse](ctx, r, post("audit", "trim").json(TrimAuditRequest{Before: Time{Time: before}}))
}

// CountUsage counts the runs since a time, by default 24 hours ago, in intervals of a unit, by default an
// hour.
func (r *Registry) CountUsage(ctx context.Context, since time.Time, unit UsageUnit) (*UsageReport, error) {
	q := get("usage").with("unit", string(unit))
	if !since.IsZero() {
		q = q.with("since", since.UTC().Format(time.RFC3339Nano))
	}
	return fetch[UsageReport](ctx, r, q)
}

// CountSearches counts the searches of each hour, and those without a hit. It needs the owner's token.
func (r *Registry) CountSearches(ctx context.Context) (*SearchCounts, error) {
	return fetch[SearchCounts](ctx, r, get("search-counts"))
}

// GetPolicy returns the policy of the guardian that is in force. It needs the owner's token.
func (r *Registry) GetPolicy(ctx context.Context) (*GuardianPolicies, error) {
	return fetch[GuardianPolicies](ctx, r, get("guardian", "policy"))
}

// VerifyLog has the guardian check its audit log: every record follows the one before it.
func (r *Registry) VerifyLog(ctx context.Context) (*LogVerification, error) {
	return fetch[LogVerification](ctx, r, get("guardian", "verification"))
}

// TryPolicy tries a policy on the latest decisions of the guardian. Nothing changes.
func (r *Registry) TryPolicy(ctx context.Context, trial PolicyTrialRequest) (*PolicyTrial, error) {
	return fetch[PolicyTrial](ctx, r, post("guardian", "trials").safe().json(trial))
}

// ListMirrors returns the registries that this one has copies of.
func (r *Registry) ListMirrors(ctx context.Context) ([]MirroredRegistry, error) {
	list, err := fetch[MirrorList](ctx, r, get("mirrors"))
	if err != nil {
		return nil, err
	}
	return list.Mirrors, nil
}
