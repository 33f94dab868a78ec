package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

const refPrefix = "#/components/schemas/"

// schema is the part of a JSON Schema that decides about a Go type.
type schema struct {
	Ref                  string `json:"$ref"`
	Description          string
	Type                 typeNames
	Format               string
	Enum                 []string
	Properties           properties
	Required             []string
	Items                *schema
	AdditionalProperties additional
	OneOf, AllOf         []*schema
	Discriminator        *struct {
		PropertyName string
		Mapping      map[string]string
	}
}

// typeNames is a name, or a list of names.
type typeNames []string

func (t *typeNames) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(t))
	}
	*t = []string{""}
	return json.Unmarshal(text, &(*t)[0])
}

// additional is a schema, or a boolean. A boolean says nothing about a Go type.
type additional struct{ *schema }

func (a *additional) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return nil
	}
	return json.Unmarshal(text, &a.schema)
}

type property struct {
	name   string
	schema *schema
}

// properties keep the order of the description, which the authors of the API chose.
type properties []property

func (p *properties) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		next := property{name: name.(string)}
		if err := decoder.Decode(&next.schema); err != nil {
			return err
		}
		*p = append(*p, next)
	}
	return nil
}

// target returns the name of the schema to which a reference leads.
func (s *schema) target() string {
	return strings.TrimPrefix(s.Ref, refPrefix)
}

// nullable returns the schema without null, and whether it allowed null.
func (s *schema) nullable() (*schema, bool) {
	if i := slices.Index(s.Type, "null"); i >= 0 {
		plain := *s
		plain.Type = slices.Delete(slices.Clone(s.Type), i, i+1)
		return &plain, true
	}
	if len(s.OneOf) == 2 && slices.Equal(s.OneOf[1].Type, typeNames{"null"}) {
		plain := *s.OneOf[0]
		if s.Description != "" {
			plain.Description = s.Description
		}
		return &plain, true
	}
	return s, false
}

// is reports whether the schema has exactly this type.
func (s *schema) is(name string) bool {
	return slices.Equal(s.Type, typeNames{name})
}

// isFree reports whether the schema allows every value.
func (s *schema) isFree() bool {
	return s.Ref == "" && len(s.Type) == 0 && len(s.OneOf) == 0 && len(s.AllOf) == 0
}
