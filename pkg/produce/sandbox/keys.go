package sandbox

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/redact"
)

// longestKey is more lines than a private key has.
const longestKey = 200

var (
	keyBegins = regexp.MustCompile(`-----BEGIN ([A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----`)
	keyLine   = regexp.MustCompile(`^=?[A-Za-z0-9+/]+={0,2}$`)
	keyHeader = regexp.MustCompile(`^([A-Z][A-Za-z0-9-]*: .*)?$`)
	keyPart   = regexp.MustCompile(`[A-Za-z0-9+/=]{40,}`)
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
	if m := keyBegins.FindStringSubmatch(text); m != nil {
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
	case k.adjacent && line != "" && keyLine.MatchString(line) && (len(line)%4 == 0 || line[0] == '='):
		if whole {
			k.withheld++
		}
		return ""
	default:
		k.adjacent = k.adjacent && keyHeader.MatchString(line)
		text = keyPart.ReplaceAllString(text, redact.Mark) // two processes may have written the line at once, or it begins with a time
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
