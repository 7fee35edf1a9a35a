package notify

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/wneessen/go-mail"

	"outlierd/sync/job"
)

// sendMail sends an event by SMTP. The event's id is the message's id, so that mail programs recognize
// one that was sent twice.
func sendMail(ctx context.Context, m *job.Mail, e Event) error {
	msg := mail.NewMsg()
	if err := msg.From(m.From); err != nil {
		return fmt.Errorf("the address of the sender: %w", err)
	}
	if err := msg.To(m.To...); err != nil {
		return fmt.Errorf("the address of a recipient: %w", err)
	}
	msg.Subject("[outlierd] " + oneLine(e.Title))
	msg.SetMessageIDWithValue(e.ID + "@outlierd.invalid")
	msg.SetDateWithValue(e.Time)
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(mail.TypeTextPlain, e.Title+"\n\n"+e.about(nothing)+"\n")
	client, err := mail.NewClient(m.Host, mailOptions(m)...)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Host, err)
	}
	err = client.DialAndSendWithContext(ctx, msg)
	if err != nil && !msg.IsDelivered() { // some servers hang up once they have accepted the mail
		return fmt.Errorf("%s: %w", m.Host, err)
	}
	return nil
}

func mailOptions(m *job.Mail) []mail.Option {
	options := []mail.Option{mail.WithPort(m.Port), mail.WithTimeout(timeout)}
	switch m.TLS {
	case job.MailTLS:
		options = append(options, mail.WithSSL())
	case job.MailPlain:
		options = append(options, mail.WithTLSPolicy(mail.NoTLS), mail.WithDialContextFunc(dialBounded))
	default:
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory), mail.WithDialContextFunc(dialBounded))
	}
	if m.User != "" {
		auth := mail.SMTPAuthAutoDiscover
		if m.TLS == job.MailPlain { // on loopback, as the job file's rules have it
			auth = mail.SMTPAuthPlainNoEnc
		}
		options = append(options, mail.WithSMTPAuth(auth),
			mail.WithUsername(m.User), mail.WithPassword(m.Password.Reveal()))
	}
	return options
}

// mostOfMail is how many bytes a mail server may send in one attempt. A dialogue has a few thousand.
const mostOfMail = 1 << 20

// dialBounded connects to a server that has not yet shown a certificate, and may be anything: the
// mail library would keep a line in memory however long it is.
func dialBounded(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &bounded{Conn: c, left: mostOfMail}, nil
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
