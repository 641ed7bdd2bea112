package render

import (
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/report/explain"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// sarifSchema is the address of the schema.
const sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

// home is the address of the program's description.
const home = "https://github.com/waybill-release/waybill"

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool        sarifTool         `json:"tool"`
	Invocations []sarifInvocation `json:"invocations"`
	Results     []sarifResult     `json:"results"`
	Properties  map[string]any    `json:"properties"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name  string      `json:"name"`
	Home  string      `json:"informationUri"`
	Rules []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID         string            `json:"id"`
	Short      sarifMessage      `json:"shortDescription"`
	Full       sarifMessage      `json:"fullDescription"`
	HelpURI    string            `json:"helpUri"`
	Help       sarifMessage      `json:"help"`
	Default    map[string]string `json:"defaultConfiguration"`
	Properties map[string]any    `json:"properties,omitempty"`
}

type sarifMessage struct {
	Text string `json:"text"`
}

type sarifInvocation struct {
	Successful bool                `json:"executionSuccessful"`
	Exit       int                 `json:"exitCode"`
	End        string              `json:"endTimeUtc,omitempty"`
	Told       []sarifNotification `json:"toolExecutionNotifications,omitempty"`
}

type sarifNotification struct {
	Level   string       `json:"level"`
	Message sarifMessage `json:"message"`
}

type sarifResult struct {
	Rule       string             `json:"ruleId"`
	Index      int                `json:"ruleIndex"`
	Level      string             `json:"level"`
	Message    sarifMessage       `json:"message"`
	Locations  []sarifLocation    `json:"locations"`
	Suppressed []sarifSuppression `json:"suppressions,omitempty"`
	Properties map[string]string  `json:"properties,omitempty"`
}

type sarifSuppression struct {
	Kind   string `json:"kind"`
	Status string `json:"status"`
	Why    string `json:"justification"`
}

type sarifLocation struct {
	Physical sarifPhysical  `json:"physicalLocation"`
	Logical  []sarifLogical `json:"logicalLocations"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   sarifRegion   `json:"region"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

// sarifRegion is the first line of a file: viewers that show results beside
// text need a line.
type sarifRegion struct {
	Line int `json:"startLine"`
}

type sarifLogical struct {
	Name string `json:"fullyQualifiedName"`
}

// sarif writes the verdict in the Static Analysis Results Interchange Format,
// version 2.1.0. Each reason code is a rule, explained on the page of all codes.
// A finding is an error, a warning a warning, and what was set aside a suppressed
// note. A verdict without decision is marked as an unsuccessful run, so that an
// empty list of results is never read as "no findings".
func sarif(w io.Writer, v verdict.Verdict) error {
	log := &sarifRun{Tool: sarifTool{sarifDriver{Name: "waybill", Home: home, Rules: []sarifRule{}}}, Results: []sarifResult{}}
	for _, f := range v.Findings {
		log.add(f, "error")
	}
	for _, f := range v.Warnings {
		log.add(f, "warning")
	}
	for _, s := range v.Waived {
		r := log.add(s.Finding, "note")
		r.Suppressed = []sarifSuppression{{"external", "accepted", printable(fmt.Sprintf("%s %s by %s until %s: %s",
			s.Kind, s.ID, s.By, s.Expires.Format(time.RFC3339), s.Reason))}}
	}
	o := v.Outcome()
	ran := sarifInvocation{Successful: o == verdict.Accepted || o == verdict.Refused, Exit: verdict.ExitCode(o)}
	if !v.Time.IsZero() {
		ran.End = v.Time.UTC().Format(time.RFC3339)
	}
	if o != verdict.Accepted {
		ran.Told = []sarifNotification{{"error", sarifMessage{printable(v.Headline() + "; " + v.Counts.String())}}}
	}
	if v.Unsigned() {
		ran.Told = []sarifNotification{{"warning", sarifMessage{printable(v.Headline() + "; " + v.Counts.String())}}}
	}
	for _, n := range slices.Concat(v.Sentences, v.Notes) {
		ran.Told = append(ran.Told, sarifNotification{"note", sarifMessage{printable(n)}})
	}
	log.Invocations = []sarifInvocation{ran}
	log.Properties = map[string]any{
		"question": printable(question(v)), "outcome": o.String(), "headline": printable(v.Headline()), "counts": v.Counts,
		"partialWithout": printable(strings.Join(v.Scope.Left, ", ")),
	}
	return WriteJSON(w, sarifLog{sarifSchema, "2.1.0", []sarifRun{*log}})
}

// add adds a result, and its rule if it is the first of its code.
func (r *sarifRun) add(f verdict.Finding, level string) *sarifResult {
	rules := &r.Tool.Driver.Rules
	at := slices.IndexFunc(*rules, func(rule sarifRule) bool { return rule.ID == printable(string(f.Code)) })
	if at < 0 {
		at = len(*rules)
		*rules = append(*rules, ruleOf(f.Code, level))
	}
	text := fmt.Sprintf("%s: %s", f.Subject, f.Message)
	if f.Want != "" || f.Got != "" {
		text += fmt.Sprintf(" (want %s, got %s)", f.Want, f.Got)
	}
	result := sarifResult{
		Rule: printable(string(f.Code)), Index: at, Level: level, Message: sarifMessage{printable(text + "; next: " + f.Fix)},
		Locations: []sarifLocation{{
			sarifPhysical{sarifArtifact{relative(f.Subject)}, sarifRegion{1}}, []sarifLogical{{printable(f.Subject)}},
		}},
	}
	if f.Known != nil {
		result.Properties = map[string]string{"known": printable(f.Known.ID + ": " + f.Known.Explanation)}
	}
	r.Results = append(r.Results, result)
	return &r.Results[len(r.Results)-1]
}

// ruleOf is the rule of a code whose first result has this level. Results come in
// the order of their severity, so no later one is worse.
func ruleOf(c verdict.Code, level string) sarifRule {
	e, known := explain.Of(string(c))
	if !known { // a saved verdict of another version
		e = explain.Entry{Title: "an unknown reason code", What: "This version does not know the code.", Page: home}
	}
	help := e.What
	if e.Attack != "" {
		help += " It may be an attack: " + e.Attack
	}
	rule := sarifRule{ID: printable(string(c)), Short: sarifMessage{e.Title}, Full: sarifMessage{e.What}, HelpURI: e.Page, Help: sarifMessage{help}, Default: map[string]string{"level": level}}
	if e.Attack != "" { // GitHub reads a severity from 0 to 10
		severity := map[string]string{"error": "8.0", "warning": "5.0", "note": "2.0"}[level]
		rule.Properties = map[string]any{"tags": []string{"security"}, "security-severity": severity}
	}
	return rule
}

// relative makes a relative URI of a subject, without scheme, host or "..".
func relative(subject string) string {
	clean := strings.TrimPrefix(path.Clean("/"+printable(subject)), "/")
	if clean == "" {
		clean = "release"
	}
	return (&url.URL{Path: clean}).String()
}
