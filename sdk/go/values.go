package a2s

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/a2s/core/internal/strictjson"
)

// Values are values by name: the inputs of a capability, or the outputs of a step. In values from A2S a
// number is a [json.Number], which keeps all digits.
type Values map[string]any

// UnmarshalJSON reads an object by the strict rules of the SDK.
func (v *Values) UnmarshalJSON(text []byte) error {
	value, err := strictjson.Parse(string(text))
	if err != nil {
		return err
	}
	switch value.Kind {
	case strictjson.Null:
		*v = nil
	case strictjson.Object:
		*v = freeValue(value).(map[string]any)
	default:
		return errors.New("a value that is not an object")
	}
	return nil
}

// Time is a time of the API. It is marshalled as it came: its text may have more digits than Go writes.
type Time struct {
	time.Time
	text string
}

// MarshalJSON writes the time as a text of RFC 3339.
func (t Time) MarshalJSON() ([]byte, error) {
	if came, err := time.Parse(time.RFC3339Nano, t.text); err == nil && came.Equal(t.Time) {
		return json.Marshal(t.text)
	}
	return t.Time.MarshalJSON()
}

// UnmarshalJSON reads a text of RFC 3339.
func (t *Time) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &t.text); err != nil {
		return err
	}
	var err error
	t.Time, err = time.Parse(time.RFC3339Nano, t.text)
	return err
}

// Strategy decides how a search ranks the capabilities that fit: a [StrategyName], own [Weights], or
// [Strategies], of which the first that some capability meets is used.
type Strategy interface {
	isStrategy()
}

// StrategyName is the name of a strategy of the registry.
type StrategyName string

// The strategies of the registry. Without a strategy it uses HighestScore.
const (
	HighestScore   StrategyName = "highest_score"
	MostSimilar    StrategyName = "most_similar"
	MostReliable   StrategyName = "most_reliable"
	MostUsed       StrategyName = "most_used"
	Simplest       StrategyName = "simplest"
	LeastPrivilege StrategyName = "least_privilege"
	Healthiest     StrategyName = "healthiest"
)

// Strategies are strategies in the order in which the registry tries them.
type Strategies []Strategy

// SelectionStrategy is the name of [Weights] in the text of A2S.
type SelectionStrategy = Weights

func (StrategyName) isStrategy() {}
func (Weights) isStrategy()      {}
func (Strategies) isStrategy()   {}

// parseStrategy reads a strategy as the API writes it.
func parseStrategy(value strictjson.Value) (Strategy, error) {
	switch value.Kind {
	case strictjson.String:
		return StrategyName(value.Text()), nil
	case strictjson.Object:
		var weights Weights
		err := decodeInto(value, &weights)
		return weights, err
	case strictjson.Array:
		list := Strategies{}
		for i := range value.Members {
			strategy, err := parseStrategy(value.Members[i].Value)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			list = append(list, strategy)
		}
		return list, nil
	default:
		return nil, errors.New("a value that is not a strategy")
	}
}
