package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net"
	"slices"
	"strings"

	"github.com/wneessen/go-mail"

	"outlierd/sync/job"
)

// sendMail sends an event by SMTP.
func sendMail(ctx context.Context, m *job.Mail, e Event, in *enclosure) error {
	msg, err := mailTo(m, e, in)
	if err != nil {
		return err
	}
	client, err := mail.NewClient(m.Host, mailOptions(ctx, m)...)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Host, err)
	}
	server, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Host, err)
	}
	defer func() { _ = client.CloseWithSMTPClient(server) }() // the mail was sent or refused by then
	err = client.SendWithSMTPClient(server, msg)
	if err == nil || msg.IsDelivered() { // some servers disconnect after they have accepted the mail
		return nil
	}
	return fmt.Errorf("%s: %w", m.Host, err)
}

// mailTo writes a mail. The event's id is the message's id, so that mail programs recognize one that was sent twice. A
// report is HTML with its pictures, too.
func mailTo(m *job.Mail, e Event, in *enclosure) (*mail.Msg, error) {
	msg := mail.NewMsg()
	if err := msg.From(m.From); err != nil {
		return nil, fmt.Errorf("the address of the sender: %w", err)
	}
	if err := msg.To(m.To...); err != nil {
		return nil, fmt.Errorf("the address of a recipient: %w", err)
	}
	msg.Subject("[outlierd] " + oneLine(e.Title))
	msg.SetMessageIDWithValue(e.ID + "@outlierd.invalid")
	msg.SetDateWithValue(e.Time)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	text := e.Title + "\n\n" + e.describeEvent(math.MaxInt, keepText) + "\n"
	if in == nil {
		msg.SetBodyString(mail.TypeTextPlain, text)
		return msg, nil
	}
	if in.note != "" {
		text += "\n" + in.note + "\n"
	}
	msg.SetBodyString(mail.TypeTextPlain, text)
	return msg, in.addTo(msg, e)
}

// addTo adds the HTML of a report, its pictures and its file to a mail.
func (in *enclosure) addTo(msg *mail.Msg, e Event) error {
	var embedded []string
	html, err := e.writeHTML(in.note, func(video string) template.URL {
		if _, is := in.pictures[video]; !is {
			return ""
		}
		if !slices.Contains(embedded, video) {
			embedded = append(embedded, video)
		}
		return template.URL("cid:" + video + "@outlierd.invalid") // an id is safe in an address
	})
	if err != nil {
		return err
	}
	msg.AddAlternativeString(mail.TypeTextHTML, html)
	for _, video := range embedded {
		picture := in.pictures[video]
		name := video + "." + strings.TrimPrefix(picture.Type, "image/")
		err = errors.Join(err, msg.EmbedReader(name, bytes.NewReader(picture.Data),
			mail.WithFileContentID("<"+video+"@outlierd.invalid>"), mail.WithFileContentType(mail.ContentType(picture.Type))))
	}
	if in.file != nil {
		err = errors.Join(err, msg.AttachReader(in.file.Name, bytes.NewReader(in.file.Data),
			mail.WithFileContentType(mail.ContentType(in.file.Type))))
	}
	return err
}

func mailOptions(ctx context.Context, m *job.Mail) []mail.Option {
	options := []mail.Option{mail.WithPort(m.Port), mail.WithTimeout(timeout),
		mail.WithDialContextFunc(dialUntilDone(ctx, m))}
	switch m.TLS {
	case job.MailTLS:
		options = append(options, mail.WithSSL())
	case job.MailPlain:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if m.User != "" {
		auth := mail.SMTPAuthAutoDiscover
		if m.TLS == job.MailPlain { // only on loopback, by the rules of the job file
			auth = mail.SMTPAuthPlainNoEnc
		}
		options = append(options, mail.WithSMTPAuth(auth),
			mail.WithUsername(m.User), mail.WithPassword(m.Password.Reveal()))
	}
	return options
}

// dialUntilDone returns a dialer whose connections are closed when ctx ends. The mail library only limits the time to
// connect by its context.
func dialUntilDone(ctx context.Context, m *job.Mail) mail.DialContextFunc {
	dial := dialBounded
	if m.TLS == job.MailTLS {
		dial = (&tls.Dialer{Config: &tls.Config{ServerName: m.Host, MinVersion: tls.VersionTLS12}}).DialContext
	}
	return func(dialing context.Context, network, address string) (net.Conn, error) {
		c, err := dial(dialing, network, address)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = c.Close() })
		}
		return c, err
	}
}

// maxMail is the maximum number of bytes that a mail server may send in one attempt. A normal dialogue
// has a few thousand.
const maxMail = 1 << 20

// dialBounded connects to a server that has not shown a certificate yet and may be anything. It limits
// the bytes read, because the mail library reads lines of any length into memory.
func dialBounded(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &bounded{Conn: c, left: maxMail}, nil
}

// bounded is a connection from which a limited number of bytes can be read.
type bounded struct {
	net.Conn
	left int
}

// Read implements [net.Conn].
func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errors.New("it sent more than 1 MiB, which no mail server does")
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
