package sandbox

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/redact"
)

// Limits of a log.
const (
	maxLog  = 64 << 20 // bytes that are passed on
	maxLine = 16 << 10 // bytes that are processed at a time
	maxTail = 4 << 10  // bytes that an error repeats
)

// Log is the log of a step on its way to its readers. What a step writes is
// hostile: the length is limited, control characters and invisible text are
// escaped, and secrets are redacted. It may be written by several goroutines.
type Log struct {
	mu      sync.Mutex // owns the fields below
	next    io.Writer  // may be nil
	secrets []string
	line    []byte // not yet passed on
	begun   bool   // a part of the line has been passed on
	keys    keys   // private keys in it
	passed  int64
	full    bool // the limit is reached; only the end will be passed on
	tail    []byte
}

// NewLog returns a log that passes on to next, which may be nil. Secrets of
// fewer than six bytes are too common to redact.
func NewLog(next io.Writer, secrets []string) *Log {
	l := &Log{next: next}
	for _, s := range secrets {
		if s = strings.TrimSpace(s); len(s) >= 6 {
			l.secrets = append(l.secrets, s)
		}
	}
	return l
}

// Write implements [io.Writer]. It passes on whole lines.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		end := cmp.Or(bytes.IndexByte(p[:min(len(p), maxLine)], '\n')+1, min(len(p), maxLine))
		l.line = append(l.line, p[:end]...)
		p = p[end:]
		if l.line[len(l.line)-1] == '\n' || len(l.line) >= maxLine+l.longest() {
			if err := l.pass(l.line[len(l.line)-1] == '\n'); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// longest is how much of a long line is held back, so no secret is split.
func (l *Log) longest() int {
	n := 512
	for _, s := range l.secrets {
		n = max(n, len(s))
	}
	return min(n, maxLine)
}

// pass passes on the line, or most of an incomplete one.
func (l *Log) pass(whole bool) error {
	text := string(l.line)
	for _, s := range l.secrets {
		text = strings.ReplaceAll(text, s, redact.Mark)
	}
	text = redact.Secrets(l.keys.redact(text, whole))
	if !l.begun && strings.HasPrefix(text, spoken) {
		text = "> " + text // a step cannot imitate our lines
	}
	if !l.begun && text != "" {
		if err := l.out(l.keys.report()); err != nil {
			return err
		}
	}
	l.begun = !whole
	l.line = l.line[:0]
	if !whole && len(text) > l.longest() {
		cut := len(text) - l.longest()
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		l.line = append(l.line, text[cut:]...)
		text = text[:cut]
	}
	return l.out(harmless(text))
}

// spoken is the prefix of lines by the control plane.
const spoken = "[waybill]"

// out passes a text on. Of a log that is too long the reader gets the
// beginning and the end, which has the error.
func (l *Log) out(text string) error {
	l.tail = append(l.tail, text...)
	if len(l.tail) > 4*maxTail {
		l.tail = append([]byte{}, l.tail[len(l.tail)-maxTail:]...)
	}
	if l.full || l.next == nil {
		return nil
	}
	if l.passed += int64(len(text)); l.passed > maxLog {
		l.full = true
		text = fmt.Sprintf("\n%s omitted: the log is longer than %d bytes; only its end follows\n", spoken, maxLog)
	}
	_, err := io.WriteString(l.next, text)
	return err
}

// flush passes on the rest of a log that has ended.
func (l *Log) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.line) > 0 {
		_ = l.pass(true) // an error of the log's reader is reported elsewhere
	}
	_ = l.out(l.keys.report()) // as above
	if l.full {
		_, _ = io.WriteString(l.next, l.end()) // as above
	}
}

// Tail returns the last lines.
func (l *Log) Tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end()
}

// end is the end of the log. The caller has locked the mutex.
func (l *Log) end() string {
	text := string(l.tail)
	if len(text) > maxTail {
		text = text[len(text)-maxTail:]
		if _, rest, found := strings.Cut(text, "\n"); found {
			text = rest
		}
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// harmless escapes what controls a terminal or is invisible: control
// characters, direction marks, zero-width characters, and invalid UTF-8.
func harmless(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return (r < ' ' || r > '~') && r != '\n' && r != '\t' }) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			b.WriteString(text[:size])
		case r == '\r' && strings.HasPrefix(text[size:], "\n"):
			// the end of a line, as some systems write it
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		text = text[size:]
	}
	return b.String()
}

// longestKey is more lines than a private key has.
const longestKey = 200

var (
	keyBegins = pattern.Lazy(`-----BEGIN ([A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----`)
	keyLine   = pattern.Lazy(`^=?[A-Za-z0-9+/]+={0,2}$`)
	keyHeader = pattern.Lazy(`^([A-Z][A-Za-z0-9-]*: .*)?$`)
	keyPart   = pattern.Lazy(`[A-Za-z0-9+/=]{40,}`)
)

// keys removes the lines of private keys from a log. A step controls what it
// writes, so a first line alone does not hide the rest: only lines that can
// be part of a key are withheld, and their number is reported. The zero value
// is ready.
type keys struct {
	label    string // of the key that has begun; empty if none has
	lines    int    // that may still come
	adjacent bool   // no other line was in between
	withheld int    // lines that were not reported yet
}

// redact is a line as it may be shown. The first line of a key is left to
// the redaction by shape. whole means that the line ends here.
func (k *keys) redact(text string, whole bool) string {
	if m := keyBegins().FindStringSubmatch(text); m != nil {
		k.label, k.lines, k.adjacent = m[1], longestKey, true
		if strings.Contains(text, "-----END "+m[1]+"-----") {
			k.label = ""
		}
		return text
	}
	if k.label == "" {
		return text
	}
	if whole {
		k.lines--
	}
	line := strings.TrimSpace(text)
	switch {
	case k.lines < 0 || strings.Contains(line, "-----END "+k.label+"-----"):
		k.label = ""
	case k.adjacent && line != "" && keyLine().MatchString(line) && (len(line)%4 == 0 || line[0] == '='):
		if whole {
			k.withheld++
		}
		return ""
	default:
		k.adjacent = k.adjacent && keyHeader().MatchString(line)
		text = keyPart().ReplaceAllString(text, redact.Mark) // two processes may have written the line at once, or it begins with a time
	}
	return text
}

// report says how many lines were withheld since the last report.
func (k *keys) report() string {
	n := k.withheld
	k.withheld = 0
	switch n {
	case 0:
		return ""
	case 1:
		return spoken + " 1 line withheld: it looks like a part of a private key\n"
	}
	return fmt.Sprintf("%s %d lines withheld: they look like parts of a private key\n", spoken, n)
}
