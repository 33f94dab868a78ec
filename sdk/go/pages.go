package a2s

import (
	"context"
	"iter"
	"strconv"
	"time"
)

// PageOptions are the optional settings of an iterator over pages.
type PageOptions struct {
	// Limit is the largest number of items in one response. The iterator fetches as many responses as it
	// needs.
	Limit int
}

// limited asks for at most this number of items, unless it is 0.
func (q request) limited(limit int) request {
	if limit == 0 {
		return q
	}
	return q.with("limit", strconv.Itoa(limit))
}

func (q request) paged(options *PageOptions) request {
	if options == nil {
		return q
	}
	return q.limited(options.Limit)
}

// pages returns the items of all pages. The cursor of a page is the parameter of the next request; an
// empty one ends the list.
func pages[P, T any](ctx context.Context, r *Registry, q request, parameter string, read func(*P) (items []T, cursor string)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		q := q
		for previous := ""; ; {
			page, err := fetch[P](ctx, r, q)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			items, cursor := read(page)
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			// A server that repeats a cursor would never end.
			if cursor == "" || cursor == previous {
				return
			}
			previous = cursor
			q = q.with(parameter, cursor)
		}
	}
}

// ListCapabilities returns the latest version of each capability, by name.
func (r *Registry) ListCapabilities(ctx context.Context, options *PageOptions) iter.Seq2[CapabilitySummary, error] {
	return pages(ctx, r, get("capabilities").paged(options), "after",
		func(page *CapabilityList) ([]CapabilitySummary, string) { return page.Capabilities, page.Next })
}

// ListServices returns the services that capabilities send requests to, by host.
func (r *Registry) ListServices(ctx context.Context, options *PageOptions) iter.Seq2[Service, error] {
	return pages(ctx, r, get("services").paged(options), "after",
		func(page *ServiceList) ([]Service, string) { return page.Services, page.Next })
}

// ListServiceCapabilities returns the capabilities that send requests to a host.
func (r *Registry) ListServiceCapabilities(ctx context.Context, host string, options *PageOptions) iter.Seq2[CapabilitySummary, error] {
	return pages(ctx, r, get("services", host).paged(options), "after",
		func(page *ServiceCapabilities) ([]CapabilitySummary, string) { return page.Capabilities, page.Next })
}

// ListChanges returns every publish, yank, unyank and deprecation after the one with this number.
func (r *Registry) ListChanges(ctx context.Context, since int64, options *PageOptions) iter.Seq2[RegistryChange, error] {
	q := get("changes").with("since", strconv.FormatInt(since, 10)).paged(options)
	return pages(ctx, r, q, "since", func(page *ChangePage) ([]RegistryChange, string) {
		if !page.HasMore {
			return page.Changes, ""
		}
		return page.Changes, strconv.FormatInt(page.Next, 10)
	})
}

// ListTrust returns the checksums that the executor remembers.
func (r *Registry) ListTrust(ctx context.Context, options *PageOptions) iter.Seq2[TrustedVersion, error] {
	return pages(ctx, r, get("trust").paged(options), "after",
		func(page *TrustList) ([]TrustedVersion, string) { return page.Versions, page.Next })
}

// AuditFilter selects entries of the audit log. The zero value selects all.
type AuditFilter struct {
	// Before is the number of an entry; only older ones are read.
	Before int64
	// Name is the name of a capability.
	Name string
	// Limit is the largest number of entries in one response.
	Limit int
}

// ReadAudit returns the changes in the registry and their authors, newest first.
func (r *Registry) ReadAudit(ctx context.Context, filter *AuditFilter) iter.Seq2[AuditEntry, error] {
	q := get("audit")
	if filter != nil {
		q = q.with("name", filter.Name).limited(filter.Limit)
		if filter.Before > 0 {
			q = q.with("before", strconv.FormatInt(filter.Before, 10))
		}
	}
	return pages(ctx, r, q, "before", func(page *AuditPage) ([]AuditEntry, string) {
		if page.Next == nil {
			return page.Entries, ""
		}
		return page.Entries, strconv.FormatInt(*page.Next, 10)
	})
}

// RecordFilter selects records of the guardian's audit log. The zero value selects all.
type RecordFilter struct {
	// Event is `decision`, `outcome`, `approval`, `policy`, `shadow_policy`, `recovery` or `segment`.
	Event string
	// Decision is `allow`, `deny` or `modify`.
	Decision string
	// Tool is a part of the name of a tool.
	Tool string
	// Capability is the name of a capability.
	Capability string
	// Rule is a rule that took part in the decision.
	Rule string
	// Session is the session of the agent.
	Session string
	// User is a user, or the token that acts for one.
	User string
	// Execution is an execution of a step.
	Execution string
	// Run is a run of an executor.
	Run string
	// Since is the earliest time.
	Since time.Time
	// Differs selects decisions that the shadow policy would have made differently.
	Differs bool
	// Before and After are numbers of records: only older ones, or only newer ones, are read.
	Before, After int64
	// Limit is the largest number of records in one response.
	Limit int
}

// ListRecords returns the records of the guardian's audit log, newest first. It needs the owner's token.
func (r *Registry) ListRecords(ctx context.Context, filter *RecordFilter) iter.Seq2[Values, error] {
	q := get("guardian", "records")
	if filter != nil {
		q = q.with("event", filter.Event).with("decision", filter.Decision).with("tool", filter.Tool).
			with("capability", filter.Capability).with("rule", filter.Rule).with("session", filter.Session).
			with("user", filter.User).with("execution", filter.Execution).with("run", filter.Run).limited(filter.Limit)
		if !filter.Since.IsZero() {
			q = q.with("since", filter.Since.UTC().Format(time.RFC3339Nano))
		}
		if filter.Differs {
			q = q.with("differs", "true")
		}
		if filter.Before > 0 {
			q = q.with("before", strconv.FormatInt(filter.Before, 10))
		}
		if filter.After > 0 {
			q = q.with("after", strconv.FormatInt(filter.After, 10))
		}
	}
	return pages(ctx, r, q, "before", func(page *GuardianRecordList) ([]Values, string) {
		if page.Next == nil {
			return page.Records, ""
		}
		return page.Records, strconv.FormatInt(*page.Next, 10)
	})
}
