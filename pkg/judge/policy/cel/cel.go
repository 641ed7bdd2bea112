// Package cel reads the rules that a policy adds in its own words: expressions
// in the Common Expression Language, over verified facts, that answer yes or
// no.
//
// It owns the language that rules may use and the limits on it. It does not
// own what is judged (policy does), when a rule is asked, or what follows from
// its answer. It follows the CEL specification, github.com/google/cel-spec,
// less everything that could make a rule say less than it seems to; what is
// left out, and why, is listed below. Only the command waybill links it.
//
//	compiler, err := cel.New()
//	rule, err := compiler.Compile(`evidence.exists(e, e.role == "builder" && e.provenance.level >= 3)`)
//	holds, err := rule.Holds(view)
//
// # What a rule sees
//
//	stage     string           "staging" or "release"
//	version   string           of the release
//	time      timestamp        of judgement; there is no other clock
//	artifact  what is judged
//	evidence  list             what was verified about it, in no order
//
//	artifact.name    string    in the manifest
//	artifact.class   string    binary, archive, file, image, image-child, sums
//	artifact.sha256  string    hexadecimal
//	artifact.commit  string    that the manifest names
//
// Of each e in evidence:
//
//	e.kind           string    predicate type, or "blob"
//	e.role           string    builder, release, verifier, policy; "" for strangers
//	e.issuer         string    who says who signed
//	e.subject        string    who signed
//	e.signed         timestamp when
//	e.claims         map       of the certificate: e.claims["sourceRepositoryRef"]
//	e.provenance     what provenance says; empty where e is none
//
// Of each p in e.provenance:
//
//	p.builder        string    id
//	p.buildType      string
//	p.repository     string
//	p.ref            string
//	p.commit         string
//	p.invocation     string
//	p.level          int       of the Build track, 0 to 3
//	p.parameters     map       external parameters, by dotted path
//	p.dependencies   list      of d: d.name, d.uri, d.sha256, all strings
//
// # What a rule may say
//
// && || ! ?: == != in, < <= > >= over numbers, times and lengths of time,
// + and - over these, + over texts, m["key"], m.key, has(m.key), size(x),
// s.startsWith(t), s.endsWith(t), int(s), timestamp(s), duration(s), and over
// lists exists, exists_one, all and filter.
//
// An all over nothing is an error, and so a no: evidence that is absent proves
// nothing. Where none will do, a rule says so: size(x) == 0 || x.all(…).
//
// # What it may not, and why
//
//   - matches and contains: both find their text anywhere, so that
//     evil.example/github.com/you would do. Whole texts, prefixes and suffixes
//     are left. Roles have patterns, which are anchored.
//   - < over texts: "v1.10" comes before "v1.9".
//   - The parts of a time, getHours and its like: with a zone they read the
//     machine's tables.
//   - evidence[0], and loops over maps: there is no order to rely on.
//   - Literals of no use but to be compared with what is never so: null, {},
//     and the empty list; the characters { and } even inside texts, since
//     nothing fills in a template here; comments, which swallow the rest of a
//     rule whose lines YAML joins; characters beyond ASCII, which can look
//     like others (write \u00e9).
//   - A condition that depends on nothing ("true", 1 == 1), that compares
//     something with itself or with nothing (startsWith("")), whose number is
//     out of reach (level >= 0), whose text is not a stage, class, role or
//     claim; a loop that does not look at its variable. None of them could
//     come out both ways. What this does not find, the vacuity probe of the
//     policy does.
//   - dyn, type, map, doubles, bytes, multiplication, conversions: no rule
//     needs them, and each makes something above harder to see.
//
// # Limits
//
// 4096 bytes, 32 levels of nesting, 3 loops inside each other, and the cost
// that CEL computes: the worst case for an artifact with 16 pieces of evidence
// and 1000 dependencies each when the rule is compiled, and the actual cost
// when it is asked. A rule that would cost more is an error, and so a no.
package cel

import (
	"errors"
	"fmt"

	lang "cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// Compiler reads rules. It may be used by several goroutines at once. The zero
// Compiler reads none.
type Compiler struct {
	env *lang.Env
}

// New makes a Compiler.
func New() (Compiler, error) {
	env, err := environment()
	if err != nil {
		return Compiler{}, fmt.Errorf("making the rules engine: %w", err)
	}
	return Compiler{env}, nil
}

var errNoCompiler = errors.New("reading a rule: the compiler was not made with cel.New")

// Compile reads a rule. What is wrong with its text is an [Error].
func (c Compiler) Compile(expression string) (made policy.Expression, err error) {
	if c.env == nil {
		return nil, errNoCompiler
	}
	// The text is somebody else's and so is the parser: should it ever give
	// up, then this rule is refused, and the program lives.
	defer func() {
		if r := recover(); r != nil {
			made, err = nil, &Error{1, 1, fmt.Sprintf("it cannot be read: %v", r)}
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
		return nil, &Error{1, 1, fmt.Sprintf("its answer is %s; a rule answers yes or no (bool)", checked.OutputType())}
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

// program bounds what a rule costs, and makes it ready to be asked.
func (c Compiler) program(checked *lang.Ast) (lang.Program, error) {
	cost, err := c.env.EstimateCost(checked, typical{})
	if err != nil {
		return nil, &Error{1, 1, fmt.Sprintf("what it costs cannot be told: %v", err)}
	}
	if cost.Max > maxCost {
		return nil, &Error{1, 1, fmt.Sprintf("it may cost %d, more than %d, for a release of usual size; "+
			"ask for less, or in fewer loops", cost.Max, maxCost)}
	}
	made, err := c.env.Program(checked, lang.CostLimit(maxCost))
	if err != nil {
		return nil, &Error{1, 1, fmt.Sprintf("it cannot be made ready: %v", err)}
	}
	return made, nil
}

// rule is a compiled expression.
type rule struct {
	program lang.Program
	dated   bool // it looks at when evidence was signed
}

var (
	errNoTime = errors.New("asking a rule: what it is asked about has no time of judgement")
	errNoBool = errors.New("asking a rule: its answer is neither yes nor no")
)

// Holds answers for one artifact. Whatever goes wrong is an error, with its
// cause: a key that is not there, an all over nothing, a limit.
func (r rule) Holds(view policy.View) (bool, error) {
	if r.program == nil {
		return false, errNoBool
	}
	if view.Time.IsZero() {
		return false, errNoTime
	}
	for i, e := range view.Evidence {
		if r.dated && e.Signed.IsZero() { // it would be older than any date that a rule names
			return false, fmt.Errorf("asking a rule: evidence %d, of kind %q, has no time", i, e.Kind)
		}
	}
	out, _, err := r.program.Eval(map[string]any{
		"stage": view.Stage, "version": view.Version, "time": view.Time,
		"artifact": view.Artifact, "evidence": view.Evidence,
	})
	if err != nil {
		return false, fmt.Errorf("asking a rule: %w", err)
	}
	answer, ok := out.(types.Bool)
	if !ok {
		return false, errNoBool
	}
	return bool(answer), nil
}
