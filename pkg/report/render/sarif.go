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

// object is an object of the standard, with its names.
type object map[string]any

func message(text string) object { return object{"text": printable(text)} }

// sarif writes the verdict in the Static Analysis Results Interchange Format,
// version 2.1.0. Each reason code is a rule, explained on the page of all codes.
// A finding is an error, a warning a warning, and what was set aside a suppressed
// note. A verdict without decision is marked as an unsuccessful run, so that an
// empty list of results is never read as "no findings".
func sarif(w io.Writer, v verdict.Verdict) error {
	r := &sarifRun{rules: []object{}, results: []object{}}
	for _, f := range v.Findings {
		r.add(f, "error")
	}
	for _, f := range v.Warnings {
		r.add(f, "warning")
	}
	for _, s := range v.Waived {
		r.add(s.Finding, "note")["suppressions"] = []object{{"kind": "external", "status": "accepted", "justification": printable(fmt.Sprintf("%s %s by %s until %s: %s",
			s.Kind, s.ID, s.By, s.Expires.Format(time.RFC3339), s.Reason))}}
	}
	o := v.Outcome()
	ran := object{"executionSuccessful": o == verdict.Accepted || o == verdict.Refused, "exitCode": verdict.ExitCode(o)}
	if !v.Time.IsZero() {
		ran["endTimeUtc"] = v.Time.UTC().Format(time.RFC3339)
	}
	var told []object
	tell := func(level, text string) { told = append(told, object{"level": level, "message": message(text)}) }
	switch answer := v.Headline() + "; " + v.Counts.String(); {
	case v.Unsigned():
		tell("warning", answer)
	case o != verdict.Accepted:
		tell("error", answer)
	}
	for _, n := range slices.Concat(v.Sentences, v.Notes) {
		tell("note", n)
	}
	if len(told) > 0 {
		ran["toolExecutionNotifications"] = told
	}
	return WriteJSON(w, object{"$schema": sarifSchema, "version": "2.1.0", "runs": []object{{
		"tool":        object{"driver": object{"name": "waybill", "informationUri": home, "rules": r.rules}},
		"invocations": []object{ran}, "results": r.results,
		"properties": object{
			"question": printable(question(v)), "outcome": o.String(), "headline": printable(v.Headline()), "counts": v.Counts,
			"partialWithout": printable(strings.Join(v.Scope.Left, ", ")),
		},
	}}})
}

// sarifRun is what a run found: the results, and their rules by code.
type sarifRun struct {
	codes          []string
	rules, results []object
}

// add adds a result, and its rule if it is the first of its code.
func (r *sarifRun) add(f verdict.Finding, level string) object {
	code := printable(string(f.Code))
	at := slices.Index(r.codes, code)
	if at < 0 {
		at = len(r.codes)
		r.codes, r.rules = append(r.codes, code), append(r.rules, ruleOf(f.Code, level))
	}
	text := fmt.Sprintf("%s: %s", f.Subject, f.Message)
	if f.Want != "" || f.Got != "" {
		text += fmt.Sprintf(" (want %s, got %s)", f.Want, f.Got)
	}
	result := object{
		"ruleId": code, "ruleIndex": at, "level": level, "message": message(text + "; next: " + f.Fix),
		"locations": []object{{
			// Viewers that show results beside text need a line: the first one.
			"physicalLocation": object{"artifactLocation": object{"uri": relative(f.Subject)}, "region": object{"startLine": 1}},
			"logicalLocations": []object{{"fullyQualifiedName": printable(f.Subject)}},
		}},
	}
	if f.Known != nil {
		result["properties"] = object{"known": printable(f.Known.ID + ": " + f.Known.Explanation)}
	}
	r.results = append(r.results, result)
	return result
}

// ruleOf is the rule of a code whose first result has this level. Results come in
// the order of their severity, so no later one is worse.
func ruleOf(c verdict.Code, level string) object {
	e, known := explain.Of(string(c))
	if !known { // a saved verdict of another version
		e = explain.Entry{Title: "an unknown reason code", What: "This version does not know the code.", Page: home}
	}
	help := e.What
	if e.Attack != "" {
		help += " It may be an attack: " + e.Attack
	}
	rule := object{
		"id": printable(string(c)), "shortDescription": message(e.Title), "fullDescription": message(e.What), "helpUri": e.Page, "help": message(help),
		"defaultConfiguration": object{"level": level},
	}
	if e.Attack != "" { // GitHub reads a severity from 0 to 10
		severity := map[string]string{"error": "8.0", "warning": "5.0", "note": "2.0"}[level]
		rule["properties"] = object{"tags": []string{"security"}, "security-severity": severity}
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
