package library

// phrases are templates for texts of creators and viewers in one language. {t} stands for
// the topic, {n} for a number from 2 to 99, {a} for a person's name.
type phrases struct {
	titles       []string
	shorts       []string
	spoken       []string // one transcript event each
	comments     []string
	people       []string // of people
	channels     []string // channel titles
	descriptions []string // paragraphs of descriptions
}

// decorations end one title in four.
var decorations = []string{"🔥", "☕", "😱", "🤯", "✨", "👀", "(4K)", "👨‍👩‍👧‍👦", "대박", "❤️", "💀", "½ price رائع", "— #1", "😂😂😂"}

// hostile are titles that people write to break programs. One title in a hundred is one.
var hostile = []string{
	`{t}'); DROP TABLE outliers;--`,
	`=HYPERLINK("http://x.invalid","{t}")`,
	`<script>alert("{t}")</script>`,
	"{t} \x1b[31mred\x1b[0m",
	`{t}, "quoted", and a \ backslash, {n}%`,
	"{t}\u202eesrever\u202c ${HOME} {{7*7}}",
	"Z͑ͫ̓ͪ̂a͆l̕g̴o {t}",
}

// phrasesOf are in the order of languages.
var phrasesOf = [2]phrases{
	{
		titles: []string{
			"I tried {t} for {n} days", "The truth about {t}", "{t}: what nobody tells you", "{n} {t} mistakes you're still making", "Why {t} changed my life",
			"Cheap vs expensive {t}", "{t} for beginners (full guide)", `"{t} is easy," they said`, "How I got better at {t} in {n} hours", "Don't buy anything for {t} until you watch this",
			"The ULTIMATE {t} setup", "{a} taught me {t}", "Is {t} worth it?", "Ranking {n} {t} tips from worst to best", "{t} on a ${n} budget",
		},
		shorts:       []string{"{t} in {n} seconds", "wait for it… {t}", "POV: {t} at 3am", "this {t} hack 🤌", "{t} gone wrong", "nobody: … me: {t}"},
		spoken:       []string{"so let's talk about {t}", "and this is where it gets interesting", "I've been doing this for {n} years", "you don't need anything expensive", "[Music]", "let me show you what I mean", "okay so that didn't work", "the first thing you notice is the sound", "about {n} percent of people get this wrong", "I asked {a} and he said no", "and honestly it's not even close", "if you look closely you can see it", "that's the secret to {t}", "right, let's try that again", "[Applause]", "and we're back", "thanks to everyone who supports the channel", "it took me {n} attempts", "which brings me to the next point", "it's better than I expected"},
		comments:     []string{"This is the best {t} video on the whole site.", "Who else is watching this at 2am? 😂", "{n}:12 had me dying 💀", "I've been doing {t} for {n} years and I still learned something.", "First!", "Can you do one about {t} for left-handed people?", "My grandfather would have loved this. Rest easy, old man.", "@{a} I disagree, the cheap one is fine.", "@{a} thanks!!", "\"it's not even close\"\n\n…it was close", "Algorithm, bless this man.", "Came for {t}, stayed for the dog", "The editing on this is insane", "lol", "Unpopular opinion: the old videos were better."},
		people:       []string{"James", "Olivia", "Liam O'Brien", "Priya", "Marcus", "Zoë", "Ethan", "Grace", "Noah", "Ava"},
		channels:     []string{"{a}'s {t} Diary", "The {t} Lab", "{t} with {a}", "Honest {t}", "{a} & Co.", "Daily {t}", "{t} Explained", "Slow {t}"},
		descriptions: []string{"Everything I know about {t}, in one video.", "⏱ Chapters\n0:00 Intro\n1:{n} {t}\n9:{n} Results", "Gear I use: https://shop.invalid/{n}", "Business: \"hello@channel.invalid\"", "Thanks for watching!\n\n#{n}"},
	},
	{
		titles: []string{
			"【検証】{t}を{n}日続けてみた", "{t}の真実", "{t}で絶対やってはいけない{n}のこと", "初心者のための{t}入門", "プロが教える{t}のコツ",
			"「{t}」が人生を変えた", "{t}、安いのと高いの何が違う？", "【神回】{t}", "{a}と{t}", "{t}おすすめ{n}選",
		},
		shorts:       []string{"{n}秒で分かる{t}", "{t}あるある😂", "まさかの{t}", "{t}の裏ワザ"},
		spoken:       []string{"今日は{t}についてお話しします", "ここからが面白いんです", "もう{n}年やっています", "高いものは必要ありません", "[音楽]", "実際に見てみましょう", "あれ、うまくいきませんね", "{n}パーセントの人が間違えます", "{a}さんに聞いてみました", "よく見てください", "これが{t}の秘密です", "もう一回やってみます", "思ったより良いですね", "チャンネル登録お願いします"},
		comments:     []string{"{t}の動画で一番分かりやすい！", "{n}:15 ここ好き", "{n}年やってるけど勉強になりました。", "1コメ", "@{a} それな", "左利き用もお願いします🙇", "編集お疲れ様です", "草", "おじいちゃんにも見せたい😭"},
		people:       []string{"太郎", "さくら", "健一", "ゆい", "髙橋", "蓮", "美咲", "翔"},
		channels:     []string{"{a}の{t}チャンネル", "{t}研究所", "ゆる{t}", "{a}ちゃんねる"},
		descriptions: []string{"{t}について全部話します。", "▼目次\n0:00 はじめに\n1:{n} {t}", "お仕事のご依頼：「hello@channel.invalid」", "ご視聴ありがとうございました！"},
	},
}
