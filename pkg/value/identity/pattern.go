package identity

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

// The limits of a pattern: people write no longer ones by hand, and no identity is
// longer.
const (
	maxPattern = 1024
	maxSize    = 2048 // with every repetition written out
)

// Pattern makes a matcher of every subject that a regular expression matches
// as a whole: the expression is always wrapped in \A(?:…)\z, so a prefix, a
// suffix or a substring never matches. The issuer and the kind of subject stay
// exact. A pattern with a fault of [LintPattern] is refused.
func Pattern(issuer, pattern string, kind SANType) (Matcher, error) {
	probe := Identity{Issuer: issuer, Subject: "probe", Type: kind}
	if err := probe.Check(); err != nil {
		return Matcher{}, err
	}
	if faults := LintPattern(pattern, kind); len(faults) > 0 {
		return Matcher{}, fmt.Errorf("identity pattern %q: %s", pattern, strings.Join(faults, "; "))
	}
	whole, err := regexp.Compile(`\A(?:` + pattern + `)\z`)
	if err != nil {
		return Matcher{}, fmt.Errorf("identity pattern: %w", err)
	}
	return Matcher{issuer: issuer, kind: kind, pattern: whole, text: pattern}, nil
}

// LintPattern lists what is dangerous about a pattern: that it is empty or
// matches anything, that a dot in a host name matches any letter, that an
// alternation reaches further than it seems, that it is a glob, that a stranger
// can choose the host or, where many share one, the owner.
func LintPattern(pattern string, kind SANType) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if pattern == "" {
		fault("it is empty")
		return faults
	}
	if len(pattern) > maxPattern {
		fault("it is longer than %d bytes", maxPattern)
		return faults
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		fault("it does not parse: %v", err)
		return faults
	}
	if sizeOf(tree) > maxSize {
		fault("its repetitions are too long when written out")
		return faults
	}
	whole := regexp.MustCompile(`\A(?:` + pattern + `)\z`)
	if whole.MatchString("") || whole.MatchString("x") || whole.MatchString("https://stranger.invalid/x") || whole.MatchString("stranger@stranger.invalid") {
		fault("it matches identities of any owner")
	}
	if tree.Op == syntax.OpAlternate && strings.ContainsRune(pattern, '|') && !strings.HasPrefix(pattern, "(") {
		fault("put the alternation into a group")
	}
	for _, host := range hostParts(pattern) {
		if dot := openDot(host); dot != "" {
			fault("the dot in %q matches any character; write \\.", dot)
		}
	}
	if strings.Contains(pattern, "[!") {
		fault("[!…] is a glob, and here it matches the ! too; write [^…]")
	}
	if len(faults) == 0 {
		faults = openHost(pattern, tree, kind)
	}
	return faults
}

// owned is the part of an address that a stranger cannot have: scheme, host, and
// the first part of the path, which a shared host assigns to one owner.
var owned = pattern.Lazy(`\A[a-z][a-z0-9+.-]*://[^/?#]+/[^/?#]+/`)

// openHost is not empty when something that is not written letter by letter
// can stand where the host is: before the @ of a workflow as well as in it.
func openHost(pattern string, tree *syntax.Regexp, kind SANType) []string {
	if kind == Email {
		if !endsInHost(tree) {
			return []string{"write the host after the last @ letter by letter, up to the end; for two hosts, two patterns"}
		}
		return nil
	}
	text := strings.TrimPrefix(strings.TrimPrefix(pattern, `\A`), "^")
	if prefix, _ := regexp.MustCompile(text).LiteralPrefix(); !owned().MatchString(prefix) {
		return []string{"write scheme, host and the first part of the path letter by letter, up to a slash; for two owners, two patterns"}
	}
	return nil
}

// endsInHost reports whether everything that an expression matches ends in an
// @ and one written host.
func endsInHost(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpCapture:
		return endsInHost(re.Sub[0])
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(branch *syntax.Regexp) bool { return !endsInHost(branch) })
	case syntax.OpLiteral:
		text := string(re.Rune)
		return re.Flags&syntax.FoldCase == 0 && strings.ContainsRune(text, '@') && !strings.HasSuffix(text, "@")
	case syntax.OpConcat:
		subs := re.Sub
		for len(subs) > 0 && (subs[len(subs)-1].Op == syntax.OpEndText || subs[len(subs)-1].Op == syntax.OpEmptyMatch) {
			subs = subs[:len(subs)-1]
		}
		return len(subs) > 0 && endsInHost(subs[len(subs)-1])
	}
	return false
}

// sizeOf estimates the length of an expression with every repetition written out.
func sizeOf(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size = min(size+sizeOf(sub), maxSize+1)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, maxSize+1)
}

// hostParts are the parts of a pattern that name a host: after each :// up to
// the next slash, or after each @ where there is no ://.
func hostParts(pattern string) (hosts []string) {
	mark := "://"
	if !strings.Contains(pattern, mark) {
		mark = "@"
	}
	for _, rest := range strings.Split(pattern, mark)[1:] {
		host, _, _ := strings.Cut(rest, "/")
		hosts = append(hosts, host)
	}
	return hosts
}

// openDot returns the text around a dot that is not escaped and not in a
// character class, or the empty string.
func openDot(host string) string {
	escaped, class := false, false
	for i, r := range host {
		switch {
		case escaped:
			escaped = false
		case r == '\\':
			escaped = true
		case r == '[':
			class = true
		case r == ']':
			class = false
		case r == '.' && !class:
			return host[max(0, i-8):min(len(host), i+8)]
		}
	}
	return ""
}
