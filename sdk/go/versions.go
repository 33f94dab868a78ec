package a2s

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	versionText    = regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?$`)
	comparatorText = regexp.MustCompile(`^\s*(=|>=|<=|>|<|~|\^|)\s*(\d+|[*xX])(?:\.(\d+|[*xX]))?(?:\.(\d+|[*xX]))?(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?\s*$`)
	digits         = regexp.MustCompile(`^\d+$`)
)

// fullVersion returns a version with three parts: documents may write 1.0 for 1.0.0.
func fullVersion(version string) string {
	core, rest := version, ""
	if i := strings.IndexAny(version, "-+"); i >= 0 {
		core, rest = version[:i], version[i:]
	}
	for core != "" && strings.Count(core, ".") < 2 {
		core += ".0"
	}
	return core + rest
}

// satisfies reports whether a version is the wanted one, or in the wanted range. Nothing, `latest` and `*`
// want any version; three numbers exactly this one; all else is a range of semantic versions, such as
// `^1.2`, `1.2` (the same), `~1.2.3`, `1.*` or `>=1, <3`.
func satisfies(version, wanted string) bool {
	version = fullVersion(version)
	if wanted == "" || wanted == "latest" || wanted == "*" {
		return true
	}
	if versionText.MatchString(wanted) {
		return version == wanted
	}
	parts := versionText.FindStringSubmatch(version)
	if parts == nil {
		return false
	}
	numbers, pre := numbersOf(parts[1:4]), parts[4]
	meant, accepted := pre == "", true
	for _, text := range strings.Split(wanted, ",") {
		match := comparatorText.FindStringSubmatch(text)
		if match == nil {
			return false
		}
		c := newComparator(match)
		// A preliminary version must be meant.
		meant = meant || c.pre != "" && slices.Equal(c.numbers, numbers)
		accepted = accepted && c.accepts(numbers, pre)
	}
	return meant && accepted
}

func numbersOf(texts []string) []int {
	numbers := make([]int, len(texts))
	for i, text := range texts {
		numbers[i], _ = strconv.Atoi(text)
	}
	return numbers
}

type comparator struct {
	sign    string
	numbers []int
	pre     string
}

func newComparator(match []string) comparator {
	given := slices.DeleteFunc(slices.Clone(match[2:5]), func(part string) bool { return part == "" })
	wild := slices.IndexFunc(given, func(part string) bool { return !digits.MatchString(part) })
	c := comparator{sign: match[1], pre: match[5]}
	if wild >= 0 {
		given = given[:wild]
		c.sign = cmp.Or(c.sign, "=")
	}
	c.sign = cmp.Or(c.sign, "^")
	c.numbers = numbersOf(given)
	return c
}

func (c comparator) accepts(found []int, foundPre string) bool {
	size := len(c.numbers)
	order := slices.Compare(found[:size], c.numbers)
	pre := comparePre(foundPre, c.pre)
	if size < 3 && c.sign != "=" {
		pre = 0
	}
	switch c.sign {
	case "=":
		return order == 0 && pre == 0
	case ">":
		return order > 0 || order == 0 && pre > 0
	case ">=":
		return order > 0 || order == 0 && pre >= 0
	case "<":
		return order < 0 || order == 0 && pre < 0
	case "<=":
		return order < 0 || order == 0 && pre <= 0
	}
	// `~` fixes the second number, `^` all up to the first that is not 0.
	fixed := min(size, 2)
	if c.sign == "^" {
		fixed = size
		if first := slices.IndexFunc(c.numbers, func(number int) bool { return number > 0 }); first >= 0 {
			fixed = first + 1
		}
	}
	return slices.Equal(found[:fixed], c.numbers[:fixed]) && (order > 0 || order == 0 && pre >= 0)
}

// comparePre compares preliminary versions: numbers come before words, and a version without one last.
func comparePre(a, b string) int {
	if a == "" || b == "" {
		return cmp.Compare(b, a)
	}
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) int {
		isNumber, isOther := digits.MatchString(a), digits.MatchString(b)
		switch {
		case isNumber && isOther:
			left, _ := strconv.Atoi(a)
			right, _ := strconv.Atoi(b)
			return cmp.Compare(left, right)
		case isNumber:
			return -1
		case isOther:
			return 1
		}
		return cmp.Compare(a, b)
	})
}

// checkVersion returns an error for the document of another capability, or of another version.
func (d *Document) checkVersion(name, wanted string) error {
	message := ""
	switch {
	case d.name != name:
		message = fmt.Sprintf("the registry has served the document of %q, not of %q", d.name, name)
	case !satisfies(d.version, wanted):
		message = fmt.Sprintf("the registry has served the version %q of %s, not %s", d.version, name, wanted)
	default:
		return nil
	}
	return &Drifted{A2SError: &A2SError{Message: message}}
}

// compareWithHit returns an error for a hit that says something else than its document. People and models
// choose by the words of a hit; the checksum binds only the document.
func compareWithHit(capability Capability, document *Document) error {
	var description string
	var permissions []string
	var parameters []InputField
	isHit := false
	switch c := capability.(type) {
	case SearchHit:
		description, permissions, parameters, isHit = c.Description, c.RequiredPermissions, c.Parameters, true
	case *SearchHit:
		description, permissions, parameters, isHit = c.Description, c.RequiredPermissions, c.Parameters, true
	case CapabilitySummary:
		description = c.Description
	case *CapabilitySummary:
		description = c.Description
	default:
		return nil
	}
	var real struct {
		Description string
		Permissions []string
		Parameters  []struct{ Name string }
	}
	if err := json.Unmarshal(document.text, &real); err != nil {
		return &InvalidDocument{A2SError: &A2SError{Message: "the document cannot be read: " + err.Error(), cause: err}}
	}
	var differences []string
	// A program may make a hit of its own, with less.
	if description != "" && description != real.Description {
		differences = append(differences, fmt.Sprintf("description: %q became %q", description, real.Description))
	}
	if isHit {
		for _, permission := range real.Permissions {
			if permissions != nil && !slices.Contains(permissions, permission) {
				differences = append(differences, fmt.Sprintf("permissions: %q is missing in the hit", permission))
			}
		}
		var said, needed []string
		for _, parameter := range parameters {
			said = append(said, parameter.Name)
		}
		for _, parameter := range real.Parameters {
			needed = append(needed, parameter.Name)
		}
		slices.Sort(said)
		slices.Sort(needed)
		if parameters != nil && !slices.Equal(said, needed) {
			differences = append(differences, fmt.Sprintf("parameters: %s became %s", strings.Join(said, ", "), strings.Join(needed, ", ")))
		}
	}
	if len(differences) == 0 {
		return nil
	}
	return &Drifted{
		A2SError: &A2SError{
			Message: fmt.Sprintf("the registry says something else about %s than its document does", document.name),
			Hint:    "Do not run it. Ask the owner of the registry why it describes another capability.",
		},
		Differences: differences,
	}
}
