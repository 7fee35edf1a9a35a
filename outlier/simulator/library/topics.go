package library

import (
	"math/bits"
	"slices"
)

// niche is a group of topics. A channel has one niche, and a semantic search for a topic also
// finds, further down, the others of its niche.
type niche struct {
	Name       string
	words      string // further English words for it
	categoryID string // of video details
	rpm        float64
	faceless   float64 // share of faceless channels
	subjects   [perNiche]subject
}

// subject is what a topic is about.
type subject struct {
	names [2]string // in the order of [languages]
	words string    // related English words
}

var languages = [2]string{"en", "ja"}

// Topic is the topic of a video. It numbers the topics of all niches.
type Topic int

const (
	nicheCount = 8
	perNiche   = 5 // topics
	topicCount = nicheCount * perNiche
)

func (t Topic) subject() *subject { return &niches[t/perNiche].subjects[t%perNiche] }

// Name is the English name.
func (t Topic) Name() string { return t.subject().names[0] }

// TopicSet is a set of topics, one bit each.
type TopicSet uint64

// TopicsOf returns the topics that match the queries, or the topics of the channels with these ids.
func (l *Library) TopicsOf(queries []string, channels bool) (set TopicSet) {
	for _, q := range queries {
		c, known := l.ByID[q]
		switch {
		case !channels:
			set |= queryIntent(q, 0).bestTopics()
		case known:
			set |= setOf(c.topics...)
		}
	}
	return set
}

func setOf(topics ...Topic) (set TopicSet) {
	for _, t := range topics {
		set |= 1 << t
	}
	return set
}

// bestTopics are the topics that match best, in each niche that matches.
func (i *intent) bestTopics() (set TopicSet) {
	for t, score := range i.topics {
		if score >= enough && score == slices.Max(i.ofNiche(t/perNiche)) {
			set |= 1 << t
		}
	}
	return set
}

// Names are the English names of the topics.
func (s TopicSet) Names() []string {
	names := make([]string, 0, bits.OnesCount64(uint64(s)))
	for t := range Topic(topicCount) {
		if s&(1<<t) != 0 {
			names = append(names, t.Name())
		}
	}
	return names
}

// niches are the subjects of channels.
var niches = [nicheCount]niche{
	{"coffee", "coffee cafe barista caffeine beans brew brewing tea matcha mate cocoa", "26", 6.5, 0.3, [perNiche]subject{
		{[2]string{"home espresso", "おうちエスプレッソ"}, "machine portafilter crema shot dial"},
		{[2]string{"moka pot", "マキネッタ"}, "stovetop bialetti italian"},
		{[2]string{"latte art", "ラテアート"}, "milk steaming rosetta tulip cappuccino foam"},
		{[2]string{"pour over", "ハンドドリップ"}, "v60 chemex filter drip kettle"},
		{[2]string{"coffee grinder", "コーヒーミル"}, "burr grind grinding"},
	}},
	{"gaming", "game games gaming gamer play playthrough", "20", 2.2, 0.6, [perNiche]subject{
		{[2]string{"Minecraft", "マインクラフト"}, "redstone survival creeper block build"},
		{[2]string{"speedrun", "スピードラン"}, "glitch any% record fastest"},
		{[2]string{"retro gaming", "レトロゲーム"}, "console cartridge nes arcade emulator"},
		{[2]string{"chess", "将棋とチェス"}, "opening gambit checkmate grandmaster elo"},
		{[2]string{"indie games", "インディーゲーム"}, "devlog unity godot steam demo"},
	}},
	{"tech", "tech technology computer gadget hardware software", "28", 7.8, 0.45, [perNiche]subject{
		{[2]string{"mechanical keyboard", "メカニカルキーボード"}, "keyboards switches keycaps lube typing"},
		{[2]string{"home lab", "自宅サーバー"}, "homelab nas proxmox rack server"},
		{[2]string{"Linux desktop", "Linuxデスクトップ"}, "arch ubuntu distro terminal wayland"},
		{[2]string{"3D printing", "3Dプリンター"}, "filament printer nozzle pla benchy"},
		{[2]string{"AI tools", "AIツール"}, "artificial intelligence prompt model agent automation"},
	}},
	{"cooking", "cooking food recipe kitchen chef eat", "26", 4.1, 0.35, [perNiche]subject{
		{[2]string{"sourdough", "サワードウ"}, "bread starter loaf crumb baking flour"},
		{[2]string{"ramen", "ラーメン"}, "noodles broth tonkotsu soup"},
		{[2]string{"meal prep", "作り置き"}, "lunch protein week containers healthy"},
		{[2]string{"street food", "屋台グルメ"}, "market vendor night stall"},
		{[2]string{"pizza dough", "ピザ生地"}, "neapolitan oven pizza mozzarella"},
	}},
	{"fitness", "fitness workout training exercise body health", "17", 4.9, 0.15, [perNiche]subject{
		{[2]string{"calisthenics", "自重トレーニング"}, "pullup pushup planche muscle bodyweight"},
		{[2]string{"marathon training", "マラソン練習"}, "running runner pace shoes race"},
		{[2]string{"yoga", "ヨガ"}, "stretch flexibility asana breathing morning"},
		{[2]string{"bouldering", "ボルダリング"}, "climbing climb crimp gym grip"},
		{[2]string{"cold plunge", "アイスバス"}, "ice bath sauna recovery"},
	}},
	{"making", "diy make maker build craft workshop handmade", "26", 5.2, 0.5, [perNiche]subject{
		{[2]string{"woodworking", "木工"}, "wood joinery plane saw table bench"},
		{[2]string{"leathercraft", "レザークラフト"}, "leather wallet stitch bag"},
		{[2]string{"crochet", "かぎ針編み"}, "yarn knit knitting amigurumi granny"},
		{[2]string{"van conversion", "バンライフ"}, "vanlife camper sprinter van"},
		{[2]string{"pottery", "陶芸"}, "clay glaze wheel kiln mug"},
	}},
	{"money", "money finance income business rich wealth", "27", 14.5, 0.55, [perNiche]subject{
		{[2]string{"index funds", "インデックス投資"}, "investing invest stocks etf dividend portfolio"},
		{[2]string{"side hustle", "副業"}, "passive earn freelance online job"},
		{[2]string{"minimalism", "ミニマリスト"}, "declutter simple frugal less"},
		{[2]string{"home buying", "マイホーム購入"}, "mortgage house rent property loan"},
		{[2]string{"budgeting", "家計簿"}, "budget saving debt spending envelope"},
	}},
	{"learning", "learn learning study explained science history documentary", "27", 5.9, 0.65, [perNiche]subject{
		{[2]string{"Roman history", "ローマ史"}, "rome empire caesar legion ancient"},
		{[2]string{"black holes", "ブラックホール"}, "space physics universe astronomy galaxy"},
		{[2]string{"language learning", "語学学習"}, "fluent polyglot vocabulary japanese spanish grammar"},
		{[2]string{"piano practice", "ピアノ練習"}, "chords music scales chopin keys"},
		{[2]string{"urban gardening", "ベランダ菜園"}, "garden tomato plants compost seeds balcony"},
	}},
}
