package a2s_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const typedHead = `package main

import (
	"context"
	"fmt"
	"log"

	a2s "github.com/a2s/core"

	"typed/capabilities"
)

var (
	ctx           = context.Background()
	registry      = a2s.NewRegistry("")
	getCountry    = a2s.TypedReference[capabilities.GetCountryInputs, capabilities.GetCountryOutputs](capabilities.GetCountry)
	listDogBreeds = a2s.TypedReference[capabilities.ListDogBreedsInputs, capabilities.ListDogBreedsOutputs](capabilities.ListDogBreeds)
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	country := capabilities.GetCountryInputs{CountryCode: "FR"}
	france := must(a2s.RunTyped(ctx, registry, getCountry, country, nil))
	plan := must(a2s.PlanTyped(ctx, registry, getCountry, country, &a2s.PlanOptions{Preview: true}))
	dogs := must(a2s.RunTyped(ctx, registry, listDogBreeds, capabilities.ListDogBreedsInputs{}, nil))
	fmt.Println(france.Name, plan.Steps, dogs.Name)
%s
}
`

const typedUse = `	var breed *string = dogs.Output.Breeds[0].Attributes.Name
	fmt.Println("typed:", *breed, france.Output.Capital, len(plan.Steps))
	fmt.Println("planned:", must(plan.Run(ctx, nil)).Output.Capital)
	begun := must(a2s.StartTyped(ctx, registry, listDogBreeds, capabilities.ListDogBreedsInputs{}, nil))
	fmt.Println("waited:", len(must(begun.Wait(ctx)).Output.Breeds))
	fmt.Println("verified:", must(registry.VerifyChecksum(ctx, getCountry)).Ref().Name)`

// Each of these programs is refused.
var typedMisuses = []string{
	`_ = capabilities.GetCountryInputs{Country: "FR"}`,
	`a2s.RunTyped(ctx, registry, getCountry, capabilities.ListDogBreedsInputs{}, nil)`,
	`a2s.RunTyped(ctx, registry, getCountry, map[string]any{"country_code": "FR"}, nil)`,
	`a2s.RunTyped(ctx, registry, getCountry, nil, nil)`,
	`a2s.PlanTyped(ctx, registry, listDogBreeds, country, nil)`,
	`a2s.StartTyped(ctx, registry, listDogBreeds, country, nil)`,
	`fmt.Println(dogs.Output.Cats)`,
	`fmt.Println(dogs.Output.Breeds[0].Attributes.Size)`,
	`var number int = *dogs.Output.Breeds[0].Id; _ = number`,
	`fmt.Println(must(plan.Run(ctx, nil)).Output.Capitol)`,
}

// TestTyped builds programs with the constants that `a2s types` writes.
func TestTyped(t *testing.T) {
	w := openWorld(t)
	module, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	environment := []string{
		"GOFLAGS=-mod=mod", "GOWORK=off", "A2S_URL=" + w.url, "A2S_TOKEN=" + w.token,
	}
	writeFile(t, filepath.Join(folder, "go.mod"), fmt.Sprintf(
		"module typed\n\ngo 1.23\n\nrequire github.com/a2s/core v0.0.0\n\nreplace github.com/a2s/core => %q\n", module))
	file := filepath.Join(folder, "capabilities", "capabilities.go")
	writeFile(t, file, "")
	runIn(t, folder, environment, os.Getenv("A2S_TEST_BIN"), "types", "--lang", "go", "--package", "capabilities",
		"--output", file, "GetCountry", "ListDogBreeds")

	writeFile(t, filepath.Join(folder, "main.go"), fmt.Sprintf(typedHead, typedUse))
	runIn(t, folder, environment, "go", "vet", ".")
	printed := runIn(t, folder, environment, "go", "run", ".")
	_, printed, _ = strings.Cut(printed, "\n") // the line of the head has addresses
	want := "typed: Caucasian Shepherd Paris 1\nplanned: Paris\nwaited: 1\nverified: GetCountry\n"
	if printed != want {
		t.Errorf("it prints %q, not %q", printed, want)
	}

	for i, misuse := range typedMisuses {
		file := filepath.Join(folder, fmt.Sprintf("misuse%d", i), "main.go")
		writeFile(t, file, fmt.Sprintf(typedHead, "\t"+misuse))
	}
	command := exec.Command("go", "vet", "./...")
	command.Dir, command.Env = folder, append(os.Environ(), environment...)
	messages, err := command.CombinedOutput()
	if err == nil {
		t.Error("the misuses are accepted")
	}
	line := strings.Count(typedHead[:strings.Index(typedHead, "%s")], "\n") + 1
	for i, misuse := range typedMisuses {
		if !strings.Contains(string(messages), fmt.Sprintf("misuse%d/main.go:%d:", i, line)) {
			t.Errorf("`%s` is accepted:\n%s", misuse, messages)
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Logf("%s", messages)
	}
}
