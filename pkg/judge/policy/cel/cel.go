// Package cel compiles the custom rules of a policy: expressions in the Common
// Expression Language over verified facts, with a boolean result.
//
// It owns the language of rules and its limits. The package policy decides what
// is checked, when a rule is evaluated and what follows from its result. The
// language follows the CEL specification, github.com/google/cel-spec, without
// the parts that could make a rule require less than it seems to; they are
// listed below with reasons. Only the command waybill links this package.
//
//	compiler, err := cel.New()
//	rule, err := compiler.Compile(`evidence.exists(e, e.role == "builder" && e.provenance.level >= 3)`)
//	holds, err := rule.Holds(view)
//
// # What a rule sees
//
//	stage     string           "staging" or "release"
//	version   string           of the release
//	time      timestamp        of verification; there is no other clock
//	artifact  the artifact in question
//	evidence  list             the verified evidence for it, in no order
//
//	artifact.name    string    in the manifest
//	artifact.class   string    binary, archive, file, image, image-child, sums
//	artifact.sha256  string    hexadecimal
//	artifact.commit  string    that the manifest names
//
// For each e in evidence:
//
//	e.kind           string    predicate type, or "blob"
//	e.role           string    builder, release, verifier, policy; "" if unlisted
//	e.issuer         string    issuer of the signer's identity
//	e.subject        string    subject of the signer's identity
//	e.signed         timestamp when it was signed
//	e.claims         map       of the certificate: e.claims["sourceRepositoryRef"]
//	e.provenance     content of provenance; empty for other evidence
//
// For each p in e.provenance:
//
//	p.builder        string    id
//	p.buildType      string
//	p.repository     string
//	p.ref            string
//	p.commit         string
//	p.invocation     string
//	p.level          int       SLSA Build level, 0 to 4
//	p.parameters     map       external parameters, by dotted path
//	p.dependencies   list      of d: d.name, d.uri, d.sha256, all strings
//
// # What a rule may contain
//
// && || ! ?: == != in, < <= > >= over numbers, times and durations, + and -
// over these, + over strings, m["key"], m.key, has(m.key), size(x),
// s.startsWith(t), s.endsWith(t), int(s), timestamp(s), duration(s), and over
// lists exists, exists_one, all and filter.
//
// An all over an empty list is an error, and therefore refuses: absent evidence
// proves nothing. A rule that accepts an empty list must say so: size(x) == 0
// || x.all(…).
//
// # What a rule may not contain, and why
//
//   - matches and contains: both match anywhere in a string, so that
//     evil.example/github.com/you would be accepted. Compare whole strings,
//     prefixes or suffixes. Roles can have patterns, which are anchored.
//   - < over strings: "v1.10" sorts before "v1.9".
//   - The parts of a time, such as getHours: with a zone they read the tables
//     of the machine.
//   - evidence[0], and loops over maps: their order is not defined.
//   - Literals whose only use is a comparison that is always false: null, {},
//     and the empty list; the characters { and } even inside strings, because
//     placeholders are not replaced here; comments, because where YAML joins
//     lines they hide the rest of a rule; characters beyond ASCII, which can
//     look like others (write \\u00e9).
//   - A condition that depends on no input ("true", 1 == 1), that compares
//     something with itself or with the empty string (startsWith("")), whose
//     number is out of range (level >= 0), or whose string is not a stage,
//     class, role or claim; a loop that does not use its variable. Each has a
//     constant result. The vacuity probe of the policy finds others.
//   - dyn, type, map, doubles, bytes, multiplication, conversions: no rule
//     needs them, and each makes such mistakes harder to detect.
//
// # Limits
//
// 4096 bytes, 32 levels of nesting, 3 nested loops, and the cost that CEL
// computes: when a rule is compiled, the worst case for an artifact with 16
// pieces of evidence and 1000 dependencies each; when it is evaluated, the
// actual cost. A rule over the limit is an error, and therefore refuses.
//
// Other projects should not import this package: it changes without notice.
package cel

import (
	"errors"
	"fmt"

	lang "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// Compiler compiles rules. It is safe for concurrent use. The zero Compiler
// compiles none.
type Compiler struct {
	env *lang.Env
}

// New makes a Compiler.
func New() (Compiler, error) {
	env, err := environment()
	if err != nil {
		return Compiler{}, fmt.Errorf("creating the CEL environment: %w", err)
	}
	return Compiler{env}, nil
}

var errNoCompiler = errors.New("compiling a rule: the compiler was not made with cel.New")

// Compile compiles a rule. An error in its text is an [Error].
func (c Compiler) Compile(expression string) (made policy.Expression, err error) {
	if c.env == nil {
		return nil, errNoCompiler
	}
	// The text is untrusted and parsed by a library: if the parser panics, this
	// rule is refused and the program continues.
	defer func() {
		if r := recover(); r != nil {
			made, err = nil, &Error{1, 1, fmt.Sprintf("the parser failed: %v", r)}
		}
	}()
	if err := checkText(expression); err != nil {
		return nil, err
	}
	parsed, issues := c.env.Parse(expression)
	if err := firstOf(issues); err != nil {
		return nil, err
	}
	if err := checkWords(parsed.NativeRep()); err != nil {
		return nil, err
	}
	checked, issues := c.env.Check(parsed)
	if err := firstOf(issues); err != nil {
		return nil, err
	}
	if checked.OutputType() != types.BoolType {
		return nil, &Error{1, 1, fmt.Sprintf("the result is of type %s, want bool", checked.OutputType())}
	}
	dated, err := checkMeaning(checked.NativeRep())
	if err != nil {
		return nil, err
	}
	program, err := c.program(checked)
	if err != nil {
		return nil, err
	}
	return rule{program, dated}, nil
}

// program limits the cost of a rule and prepares it for evaluation.
func (c Compiler) program(checked *lang.Ast) (lang.Program, error) {
	cost, err := c.env.EstimateCost(checked, typical{})
	if err != nil {
		return nil, &Error{1, 1, fmt.Sprintf("the cost cannot be estimated: %v", err)}
	}
	if cost.Max > maxCost {
		return nil, &Error{1, 1, fmt.Sprintf("the rule may cost %d for a typical release, the limit is %d; "+
			"simplify it, or use fewer loops", cost.Max, maxCost)}
	}
	made, err := c.env.Program(checked, lang.CostLimit(maxCost))
	if err != nil {
		return nil, &Error{1, 1, fmt.Sprintf("the rule cannot be prepared: %v", err)}
	}
	return made, nil
}

// rule is a compiled expression.
type rule struct {
	program lang.Program
	dated   bool // it uses the time of a signature
}

var (
	errNoTime = errors.New("evaluating a rule: the time of verification is not set")
	errNoBool = errors.New("evaluating a rule: the result is not a boolean")
)

// Holds evaluates the rule for one artifact. Every problem is an error with its
// cause: a missing key, an all over an empty list, a limit.
func (r rule) Holds(view policy.View) (bool, error) {
	if r.program == nil {
		return false, errNoBool
	}
	if view.Time.IsZero() {
		return false, errNoTime
	}
	for i, e := range view.Evidence {
		if r.dated && e.Signed.IsZero() { // the zero time would be before every date in a rule
			return false, fmt.Errorf("evaluating a rule: evidence %d, of kind %q, has no time", i, e.Kind)
		}
	}
	out, _, err := r.program.Eval(map[string]any{
		"stage": view.Stage, "version": view.Version, "time": view.Time,
		"artifact": view.Artifact, "evidence": view.Evidence,
	})
	if err != nil {
		return false, fmt.Errorf("evaluating a rule: %w", err)
	}
	answer, ok := out.(types.Bool)
	if !ok {
		return false, errNoBool
	}
	return bool(answer), nil
}
