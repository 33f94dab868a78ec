package a2s

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/a2s/core/internal/strictjson"
)

// maxTurns is the largest number of turns of one request: a server could ask forever.
const maxTurns = 64

// Reply is the reply to a question of the agent: values of inputs, or words.
type Reply struct {
	// Inputs are values for the fields of the question. Only here may secret values be given.
	Inputs Values
	// Text is a reply in words, such as the name of one of the choices.
	Text string
}

// AgentOptions are the optional settings of a request to the agent.
type AgentOptions struct {
	// OnQuestion replies to a question. With nil as the reply, the response with the question is the
	// result; so it is without the function.
	OnQuestion func(ctx context.Context, question *AgentQuestion) (*Reply, error)
	// OnConsent decides about the actions that the agent would do. Without it, the response with the
	// question is the result.
	OnConsent func(ctx context.Context, question *AgentQuestion) (bool, error)
	// OnEvent gets each event as it happens.
	OnEvent func(event AgentEvent)
	// Session continues a conversation. Without it, the agent continues the last one.
	Session string
	// Context are the Values of the last response of the conversation.
	Context Values
	// Strategy ranks the capabilities that fit.
	Strategy Strategy
	// Filters exclude capabilities.
	Filters *SearchFilters
}

// Agent finds and runs capabilities for requests in plain words. It may be used by several goroutines at
// the same time.
type Agent struct {
	mutex      sync.Mutex
	registries []*Registry
	session    string
}

// NewAgent returns an agent without registries.
func NewAgent() *Agent { return &Agent{} }

// UseRegistries sets the registries that the agent asks, in their order.
func (a *Agent) UseRegistries(registries ...*Registry) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.registries = slices.Clone(registries)
	a.session = ""
}

// HandleRequest carries out a request in plain words. It talks to the agent of the first registry, and with that of
// the next one while nothing fits. The result is the last response; its status says how it ended.
func (a *Agent) HandleRequest(ctx context.Context, query string, options *AgentOptions) (*AgentResponse, error) {
	a.mutex.Lock()
	registries, session := a.registries, a.session
	a.mutex.Unlock()
	if options == nil {
		options = &AgentOptions{}
	}
	if options.Session != "" {
		session = options.Session
	}
	if len(registries) == 0 {
		return nil, &InvalidInput{&A2SError{
			Message: "the agent has no registry",
			Hint:    "Call UseRegistries first.",
		}}
	}
	var response *AgentResponse
	for _, registry := range registries {
		var err error
		response, err = registry.converse(ctx, AgentRequest{
			Message:  query,
			Session:  session,
			Context:  options.Context,
			Strategy: options.Strategy,
			Filters:  options.Filters,
		}, options)
		if err != nil {
			return nil, err
		}
		if response.Status != AgentStatusNothingFits {
			break
		}
	}
	a.mutex.Lock()
	a.session = response.Session
	a.mutex.Unlock()
	return response, nil
}

// converse makes turns until the agent asks nothing, or has no reply.
func (r *Registry) converse(ctx context.Context, body AgentRequest, options *AgentOptions) (*AgentResponse, error) {
	for range maxTurns {
		response, err := r.turn(ctx, body, options.OnEvent)
		if err != nil || response.Status != AgentStatusInputRequired || response.Question == nil {
			return response, err
		}
		reply, err := options.reply(ctx, response.Question)
		if err != nil || reply == nil {
			return response, err
		}
		body = AgentRequest{
			Message: reply.Text,
			Session: response.Session,
			Pending: &response.Question.Pending,
			Inputs:  reply.Inputs,
		}
	}
	return nil, &A2SError{Message: "the agent does not stop asking"}
}

// reply returns the reply of the caller to a question, or nil.
func (o *AgentOptions) reply(ctx context.Context, question *AgentQuestion) (*Reply, error) {
	if len(question.Actions) == 0 && question.Delegation == nil && question.Proposal == nil {
		if o.OnQuestion == nil {
			return nil, nil
		}
		return o.OnQuestion(ctx, question)
	}
	if o.OnConsent == nil {
		return nil, nil
	}
	yes, err := o.OnConsent(ctx, question)
	if err != nil {
		return nil, err
	}
	if yes {
		return &Reply{Text: "yes"}, nil
	}
	return &Reply{Text: "no"}, nil
}

// turn sends one message, and returns the response at the end of the stream.
func (r *Registry) turn(ctx context.Context, body AgentRequest, onEvent func(AgentEvent)) (*AgentResponse, error) {
	var response *AgentResponse
	q := post("agent").json(body)
	var stream io.ReadCloser
	err := r.try(ctx, q, func(ctx context.Context) (err error) {
		stream, err = r.openStream(ctx, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	err = receiveMessages(stream, func(m message) (bool, error) {
		if m.event == "problem" {
			return false, problemOf(m.data)
		}
		value, err := strictjson.Parse(m.data)
		if err != nil {
			return false, err
		}
		if onEvent != nil {
			var event AgentEvent
			if err := decodeInto(value, &event); err != nil {
				return false, err
			}
			onEvent(event)
		}
		if m.event != "response" {
			return true, nil
		}
		// The response is the event without its type.
		value.Members = slices.DeleteFunc(slices.Clone(value.Members), func(member strictjson.Member) bool {
			return member.Name == "type"
		})
		response = &AgentResponse{}
		return false, decodeInto(value, response)
	})
	if err == nil && response == nil {
		err = &lost{errors.New("the stream ended without a response")}
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, final(err)
	}
	return response, nil
}

// problemOf returns the error of an event `problem`, which has the body of an error response.
func problemOf(text string) error {
	status := http.StatusInternalServerError
	var problem Problem
	if err := unmarshal([]byte(text), &problem); err == nil {
		status = problem.Status
	}
	return problemError(&response{status: status, body: []byte(text)})
}
