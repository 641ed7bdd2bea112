package faults

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"
)

// Status answers with a status and pairs of header names and values, and does
// nothing.
func Status(code int, header ...string) Act {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// FailsButDoes does what it is asked, and says that it failed.
func FailsButDoes(code int) Act {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		w.WriteHeader(code)
	}
}

// DoesAndDies does what it is asked, and breaks the connection.
func DoesAndDies(_ http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// Loses says yes, and does nothing.
func Loses(code int, body string) Act {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		if body != "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// Dies breaks the connection before any answer.
func Dies(_ http.ResponseWriter, _ *http.Request, _ http.Handler) { panic(http.ErrAbortHandler) }

// answered is the real answer, whole.
func answered(w http.ResponseWriter, r *http.Request, next http.Handler) (*httptest.ResponseRecorder, []byte) {
	rec := httptest.NewRecorder()
	next.ServeHTTP(rec, r)
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	return rec, rec.Body.Bytes()
}

// Resets gives half of the answer and breaks the connection.
func Resets(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rec, body := answered(w, r, next)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(rec.Code)
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush() // what is not sent is not read either
	panic(http.ErrAbortHandler)
}

// CutsChunks gives half of the answer in chunks, without the last one.
func CutsChunks(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rec, body := answered(w, r, next)
	w.Header().Del("Content-Length")
	w.WriteHeader(rec.Code)
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// EndsEarly gives half of the answer as HTTP/1.0 does it: without a length, the
// end of the connection is the end of the body.
func EndsEarly(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rec, body := answered(w, r, next)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic("faults: " + err.Error())
	}
	defer conn.Close()
	header := w.Header().Clone()
	header.Del("Content-Length")
	_, _ = buffered.WriteString("HTTP/1.0 " + strconv.Itoa(rec.Code) + " OK\r\n")
	_ = header.Write(buffered)
	_, _ = buffered.WriteString("\r\n")
	_, _ = buffered.Write(body[:len(body)/2])
	_ = buffered.Flush()
}

// Flips changes one byte.
func Flips(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rec, body := answered(w, r, next)
	if len(body) > 0 {
		body[len(body)/2] ^= 1
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(body)
}

// Lengthens adds bytes to the answer, and says so in its length.
func Lengthens(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rec, body := answered(w, r, next)
	body = append(bytes.Clone(body), "and more"...)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(rec.Code)
	_, _ = w.Write(body)
}

// Endless gives the answer and never stops.
func Endless(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rec, body := answered(w, r, next)
	w.Header().Del("Content-Length")
	w.WriteHeader(rec.Code)
	_, err := w.Write(body)
	for more := bytes.Repeat([]byte(" "), 64<<10); err == nil; {
		_, err = w.Write(more)
	}
}

// Hangs never answers.
func Hangs(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// Dribbles gives the answer a byte at a time, with a pause after each.
func Dribbles(pause time.Duration) Act {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec, body := answered(w, r, next)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(rec.Code)
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for i := range body {
			if _, err := w.Write(body[i : i+1]); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-tick.C:
			case <-r.Context().Done():
				return
			}
		}
	}
}

// Redirects sends the client elsewhere: to an address, or, with "…" at its end,
// to the same path there.
func Redirects(to string) Act {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		at := to
		if base, same := strings.CutSuffix(to, "…"); same {
			at = base + r.URL.RequestURI()
		}
		http.Redirect(w, r, at, http.StatusTemporaryRedirect)
	}
}

// Challenges refuses a token, once for each time that it is met, and names
// where to fetch another: /faults/token here, see [Tokens].
func Challenges(w http.ResponseWriter, r *http.Request, _ http.Handler) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="http://`+r.Host+`/faults/token",service="faults"`)
	w.WriteHeader(http.StatusUnauthorized)
}

// Tokens gives out what [Challenges] asks for.
func Tokens(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"token":"faults"}`)
}

// NextPage answers a list with one more page, which is always another.
func NextPage(pages *int, answer func(page int) (body, link string)) Act {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		body, link := answer(*pages)
		*pages++
		w.Header().Set("Content-Type", "application/json")
		if link != "" {
			w.Header().Set("Link", link)
		}
		_, _ = io.WriteString(w, body)
	}
}

// EndlessError answers with a status and a body that never stops.
func EndlessError(code int) Act {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(code)
		var err error
		for more := bytes.Repeat([]byte(" "), 64<<10); err == nil; {
			_, err = w.Write(more)
		}
	}
}
