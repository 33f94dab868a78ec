package main

import (
	"encoding/json"
	"testing"
)

func TestGoName(t *testing.T) {
	for name, want := range map[string]string{
		"expires_at": "ExpiresAt", "expiresAt": "ExpiresAt", "id": "ID", "duration_ms": "DurationMS",
		"CredentialApiKey": "CredentialAPIKey", "CredentialOauth2": "CredentialOAuth2", "OpenAPI": "OpenAPI",
		"p50_ms": "P50MS", "Run": "RunRecord", "v": "V", "client_id": "ClientID", "GraphQL": "GraphQL",
	} {
		if got := goName(name); got != want {
			t.Errorf("%s is %s, not %s", name, got, want)
		}
	}
}

func TestGoType(t *testing.T) {
	types := newTypes(map[string]*schema{
		"Version": {Type: typeNames{"string"}},
		"Object":  {Properties: properties{{"a", &schema{}}}},
	})
	for text, want := range map[string][2]string{
		`{"$ref":"#/components/schemas/Version"}`:                            {"string", "string"},
		`{"$ref":"#/components/schemas/Object"}`:                             {"Object", "*Object"},
		`{"oneOf":[{"$ref":"#/components/schemas/Object"},{"type":"null"}]}`: {"*Object", "*Object"},
		`{"type":"array","items":{"$ref":"#/components/schemas/Object"}}`:    {"[]Object", "[]Object"},
		`{"type":["integer","null"],"format":"int64"}`:                       {"*int64", "*int64"},
		`{"type":"integer"}`:                                                               {"int", "int"},
		`{"type":"string","format":"date-time"}`:                                           {"Time", "*Time"},
		`{"type":"object","additionalProperties":{"type":["string","null"]}}`:              {"map[string]*string", "map[string]*string"},
		`{"type":"object","additionalProperties":{},"propertyNames":{"type":"string"}}`:    {"Values", "Values"},
		`{"description":"anything"}`:                                                       {"json.RawMessage", "json.RawMessage"},
		`{"type":"object","additionalProperties":{"$ref":"#/components/schemas/Version"}}`: {"map[string]string", "map[string]string"},
	} {
		var s schema
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if got := [2]string{types.goType(&s, true), types.goType(&s, false)}; got != want {
			t.Errorf("%s is %v, not %v", text, got, want)
		}
	}
}
