package feature

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/tool/oneline"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Limits of an object.
const (
	// MaxSize bounds the bytes of an object.
	MaxSize = 1 << 20
	// MaxUses is how many uses are kept.
	MaxUses = 1000
	// maxTasks, maxHistory and maxSample bound lists, and maxLine a text.
	maxTasks   = 64
	maxHistory = 20
	maxSample  = 20
	maxLine    = 1024
	maxNames   = 250
	maxDepth   = 12
	// maxIdentity bounds the name of a reporter, maxHistorySize the bytes of the
	// history, and maxNamesSize the bytes of the names in a task, to leave room for
	// the rest.
	maxIdentity    = 200
	maxHistorySize = MaxSize / 4
	maxNamesSize   = MaxSize / 16
)

// Parse reads an object strictly: unknown fields, states that no transition reaches
// and too long lists are refused. Ignoring a part of the object could switch a
// requirement off.
func Parse(raw []byte) (f Feature, err error) {
	if err := strictjson.Unmarshal(raw, &f, strictjson.MaxSize(MaxSize), strictjson.MaxDepth(maxDepth)); err != nil {
		return Feature{}, verdict.Wrap(verdict.ConfigParse, "feature", err)
	}
	if err := f.Validate(); err != nil {
		return Feature{}, err
	}
	return f, nil
}

// Bytes are the canonical encoding of an object. An invalid object has none.
func (f Feature) Bytes() ([]byte, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(f); err != nil {
		return nil, fmt.Errorf("writing feature %s: %w", f.Key(), err)
	}
	if b.Len() > MaxSize {
		return nil, verdict.Refuse(verdict.Limit, f.Key().String(), "the object would have %d bytes, the limit is %d", b.Len(), MaxSize)
	}
	return b.Bytes(), nil
}

// Validate refuses an object that no reconciler would write.
func (f Feature) Validate() error {
	switch {
	case f.APIVersion != APIVersion || f.Kind != documentKind:
		return f.refuse("apiVersion %q, kind %q: want %s and %s; a newer program may read it", f.APIVersion, f.Kind, APIVersion, documentKind)
	case !featuretransition.IsNamespace(f.Metadata.Namespace) || !featuretransition.IsName(f.Metadata.Name):
		return f.refuse("want a name such as RequireProvenance, in a namespace of lower-case letters, digits and -")
	case f.Metadata.Generation < 0:
		return f.refuse("generation %d", f.Metadata.Generation)
	}
	for _, check := range []func() error{f.Spec.validate, f.Status.validate, f.consistent, f.historic} {
		if err := check(); err != nil {
			return f.refuse("%v", err)
		}
	}
	return nil
}

func (f Feature) refuse(format string, args ...any) error {
	return verdict.Refuse(verdict.ConfigParse, "feature "+f.Key().String(), "%s", fmt.Sprintf(format, args...)).
		Advise("find out which program wrote it; an older valid generation can be restored")
}

func (s Spec) validate() error {
	switch {
	case s.Desired != "" && !s.Desired.IsSteady():
		return fmt.Errorf("desired %q: want On or Off", s.Desired)
	case s.Scope.IsNone():
		return fmt.Errorf("scope: want everything or repositories")
	}
	if err := versionOrNone(s.PrepareFor); err != nil {
		return fmt.Errorf("prepareFor: %w", err)
	}
	return s.Scope.Validate()
}

func (s Status) validate() error {
	switch {
	case !slices.Contains([]State{Off, TurningOn, On, TurningOff}, s.State):
		return fmt.Errorf("state %q: want Off, TurningOn, On or TurningOff", s.State)
	case !s.Default.IsSteady():
		return fmt.Errorf("default %q: want On or Off", s.Default)
	case !slices.Contains([]Stage{Alpha, Beta, GA, Deprecated}, Stage(s.Stage)):
		return fmt.Errorf("stage %q: want alpha, beta, ga or deprecated", s.Stage)
	case s.Number < 0 || s.Schema < 0:
		return fmt.Errorf("number %d, schema %d: want numbers that grow", s.Number, s.Schema)
	case len(s.Uses) > MaxUses || len(s.Tasks) > maxTasks || len(s.Done) > maxTasks || len(s.History) > maxHistory || len(s.Conditions) > 3:
		return fmt.Errorf("a list is too long")
	}
	for _, text := range []string{s.Version, s.LastKnownVersion} {
		if _, err := version.Parse(text); err != nil {
			return err
		}
	}
	if s.Moving != nil {
		if _, err := version.Parse(s.Moving.Version); err != nil {
			return fmt.Errorf("moving: %w", err)
		}
		if s.Moving.Schema < 0 {
			return fmt.Errorf("moving: schema %d", s.Moving.Schema)
		}
	}
	if err := s.Enforced.Validate(); err != nil {
		return err
	}
	if err := s.Preparing.Validate(); err != nil {
		return err
	}
	return s.listed()
}

// listed judges the elements of the lists.
func (s Status) listed() error {
	for _, u := range s.Uses {
		if err := u.validate(); err != nil {
			return err
		}
	}
	for _, t := range s.Tasks {
		if !slices.Contains([]TaskKind{WaitForUses, Sweep, Hold}, t.Kind) || !featuretransition.IsName(t.Name) || t.Attempts < 0 || t.Remaining < 0 || !isText(t.Message) {
			return fmt.Errorf("task %q of kind %q: invalid kind, name or counts", t.Name, t.Kind)
		}
		if t.Kind == WaitForUses && t.Since.IsZero() {
			return fmt.Errorf("task %s has no start of its wait", t.Name)
		}
		if len(t.Names) > maxNames || slices.ContainsFunc(t.Names, func(n string) bool { return !isLine(n) }) {
			return fmt.Errorf("task %s: want at most %d names, one line each", t.Name, maxNames)
		}
	}
	for _, c := range s.Conditions {
		if !slices.Contains([]string{Dangling, SafeToUpgrade, SafeToDowngrade}, c.Type) || !slices.Contains([]string{"True", "False", "Unknown"}, c.Status) ||
			!isText(c.Message) || c.Count < 0 || len(c.Sample) > maxSample || slices.ContainsFunc(c.Sample, func(s string) bool { return !isText(s) }) {
			return fmt.Errorf("condition %q with status %q: want a known type and status, and a short message", c.Type, c.Status)
		}
	}
	return nil
}

func (u Use) validate() error {
	_, err := version.Parse(u.Version)
	if !isIdentity(u.Identity) || err != nil || u.LastSeen.IsZero() {
		return fmt.Errorf("use by %q: want identity, version and time", u.Identity)
	}
	return nil
}

// consistent refuses a state that contradicts the rest of the object.
func (f Feature) consistent() error {
	s := f.Status
	switch {
	case !s.State.IsSteady() && len(s.Tasks) == 0:
		return fmt.Errorf("state %s without a task", s.State)
	case s.State == Off && len(s.Tasks) > 0:
		return fmt.Errorf("state Off with tasks")
	case s.State == On && (len(s.Tasks) > 0) != (s.Moving != nil):
		return fmt.Errorf("state On with tasks that change no data")
	case s.State == On && s.Enforced.IsNone():
		return fmt.Errorf("state On, but enforced nowhere")
	case (s.State == Off || s.State == TurningOff) && !s.Enforced.IsNone():
		return fmt.Errorf("state %s, but still enforced", s.State)
	case s.State.IsSteady() != s.Preparing.IsNone():
		return fmt.Errorf("state %s does not agree with preparing", s.State)
	}
	return nil
}

// historic refuses an object whose last transition did not lead to its state.
func (f Feature) historic() error {
	h := f.Status.History
	if len(h) == 0 {
		if f.Status.Number != 0 || f.Status.State != Off {
			return fmt.Errorf("state %s after %d transitions, without a history", f.Status.State, f.Status.Number)
		}
		return nil
	}
	for i, e := range h {
		if err := e.Transition.Validate(); err != nil {
			return err
		}
		if i > 0 && (e.Transition.Number != h[i-1].Transition.Number+1 || e.Transition.From != h[i-1].Transition.To) {
			return fmt.Errorf("history: transition %d does not follow the previous one", e.Transition.Number)
		}
		if e.Statement != "" && !isLine(e.Statement) {
			return fmt.Errorf("history: transition %d: the name of the statement is not a line of text", e.Transition.Number)
		}
	}
	if last := h[len(h)-1].Transition.State(); !bytes.Equal(last.Bytes(), f.Effective().Bytes()) {
		return fmt.Errorf("the last transition in the history does not lead to this state: not written by a reconciler")
	}
	return nil
}

func versionOrNone(text string) error {
	if text == "" {
		return nil
	}
	_, err := version.Parse(text)
	return err
}

// isLine reports whether text is one line without invisible characters.
func isLine(text string) bool { return oneline.Is(text, maxLine) }

func isIdentity(text string) bool { return oneline.Is(text, maxIdentity) }

func isText(text string) bool { return text == "" || isLine(text) }

// line makes one line of foreign text, and shortens it.
func line(text string) string {
	text = strings.ToValidUTF8(text, "?")
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	const limit = maxLine - len("…")
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return strings.TrimSpace(text)
}

// kept are the first names, as many as fit into an object.
func kept(names []string) (some []string) {
	size := 0
	for _, n := range names {
		if n = line(n); n == "" {
			continue
		}
		if size += len(n); len(some) == maxNames || size > maxNamesSize {
			break
		}
		some = append(some, n)
	}
	return some
}

// stamp is a time as it is stored: in UTC, in seconds.
func stamp(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
