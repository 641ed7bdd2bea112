package signoff

import (
	"regexp"
	"slices"
	"strconv"
)

// Review is the file with the approvers of the production readiness of an enhancement, by
// stage.
type Review struct {
	Number    string
	Approvers map[string]string
}

// ParseReview reads a production-readiness file.
func ParseReview(raw []byte) (Review, error) {
	root, err := mapping("production readiness", raw)
	if err != nil {
		return Review{}, err
	}
	v := Review{Approvers: map[string]string{}}
	r := reader{file: "production readiness"}
	for name, n := range pairs(root) {
		if name == "kep-number" {
			r.text(n, &v.Number)
			continue
		}
		for field, value := range pairs(n) {
			if slices.Contains(kepStages(), name) && field == "approver" {
				var who string
				r.text(value, &who)
				v.Approvers[name] = who
			}
		}
	}
	return v, r.err
}

// reviewers is the alias with the allowed approvers.
const reviewers = "prod-readiness-approvers"

// ParseAliases reads the allowed approvers of production readiness from OWNERS_ALIASES.
func ParseAliases(raw []byte) ([]string, error) {
	root, err := mapping("OWNERS_ALIASES", raw)
	if err != nil {
		return nil, err
	}
	var list []string
	r := reader{file: "OWNERS_ALIASES"}
	for name, aliases := range pairs(root) {
		if name != "aliases" {
			continue
		}
		for alias, n := range pairs(aliases) {
			if alias == reviewers {
				r.list(n, &list)
			}
		}
	}
	return list, r.err
}

var milestone = regexp.MustCompile(`^v?(\d{1,4})\.(\d{1,4})$`)

// release is a milestone as two numbers; false if invalid.
func release(text string) (n [2]int, ok bool) {
	m := milestone.FindStringSubmatch(text)
	if m == nil {
		return n, false
	}
	for i := range n {
		n[i], _ = strconv.Atoi(m[i+1]) // four digits
	}
	return n, true
}

// IsMilestone reports whether a text is a milestone, such as v1.37.
func IsMilestone(text string) bool {
	_, ok := release(text)
	return ok
}

// reviewedFrom is the first release that required production readiness.
func reviewedFrom() [2]int { return [2]int{1, 21} }

// needsReview reports whether production readiness must be approved; also if the release
// is unknown.
func (k KEP) needsReview() bool {
	if k.Status != "implementable" && k.Status != "implemented" {
		return false
	}
	at, known := release(k.LatestMilestone)
	first := reviewedFrom()
	return !known || at[0] > first[0] || at[0] == first[0] && at[1] >= first[1]
}
