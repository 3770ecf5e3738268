"""English antonyms by axis. Written for this project."""

# ruff: noqa: E501 — an axis a line
from __future__ import annotations

# One axis a line: words of one side | words of the other. Any word of one side against any of the other is an antonym pair.
ANTONYMS = """
enable activate reactivate turn_on switch_on | disable deactivate turn_off switch_off
allow permit authorize authorise | forbid prohibit ban disallow deny prevent
increase raise grow rise gain boost heighten escalate went_up go_up going_up | decrease lower reduce drop fall decline shrink lessen diminish lose went_down go_down going_down
maximize maximise maximum max | minimize minimise minimum min
expand enlarge extend widen lengthen | contract compress narrow shorten shrink
install reinstall | uninstall
add append insert include attach | remove delete exclude detach subtract
create make build construct establish | delete destroy demolish erase
save keep retain preserve | discard delete erase
lock | unlock
block ban mute | unblock unban unmute
follow | unfollow
subscribe | unsubscribe
register enroll enrol sign_up | deregister unregister unenroll
link connect attach pair join | unlink disconnect detach unpair leave
mount | unmount dismount
zip archive compress | unzip unarchive decompress extract
pack | unpack
load | unload
plug_in | unplug plug_out
wrap | unwrap
fold | unfold
tie fasten buckle | untie unfasten unbuckle
button_up | unbutton
dress | undress
cover conceal hide mask | uncover reveal show unmask display
freeze | unfreeze thaw melt defrost
pin | unpin
hide | unhide
redo | undo
encrypt encode | decrypt decode
read | write
import | export
upload | download
input | output
send sent | receive received
push | pull
fetch retrieve | put
give gave given lend lent | take took taken borrow
buy bought purchase | sell sold
deposit | withdraw withdrew withdrawn
pay | refund
earn | spend spent
invest | divest
hire employ recruit | fire dismiss sack
accept approve agree | reject refuse decline disapprove disagree
confirm | cancel deny
open opened opens | close shut closed
start begin began begun launch commence initiate resume | stop end finish halt quit terminate pause
continue proceed | stop pause discontinue
arrive arrival arrivals | depart leave departure departures
enter enters entrance entry | exit leave
login log_in sign_in | logout log_out sign_out log_off
check_in | check_out
clock_in | clock_out
opt_in | opt_out
zoom_in | zoom_out
fade_in | fade_out
move_in | move_out
inflow inbound incoming | outflow outbound outgoing
indoor indoors inside interior internal | outdoor outdoors outside exterior external
before prior earlier | after later afterwards
pre | post
first | last
previous | next
past | future
ancient old older oldest | modern new newer newest
young younger youngest | old older oldest elderly
early | late
above over | below under beneath
up upward upwards upstairs | down downward downwards downstairs
top upper | bottom lower
high higher highest tall | low lower lowest short
ascend ascending asc climb | descend descending desc
forward forwards ahead | backward backwards back behind reverse
front | back rear
left | right
east eastern eastbound | west western westbound
north northern northbound | south southern southbound
horizontal horizontally | vertical vertically
row rows | column columns
near close nearby nearest closest | far distant farthest furthest
local | remote
big large huge great larger largest bigger biggest | small little tiny smaller smallest
long longer longest | short shorter shortest brief
wide broad | narrow
thick | thin
fat overweight | thin slim underweight
deep | shallow
heavy heavier heaviest | light lighter lightest
hot hotter hottest warm warmer warmest heat | cold colder coldest cool cooler coolest chill
wet damp moist humid | dry arid
hard tough firm | soft
hard difficult tough harder hardest | easy simple easier easiest
complex complicated | simple
strong stronger strongest powerful | weak weaker weakest
strengthen | weaken
fast quick rapid swift faster fastest quicker quickest speed_up accelerate | slow slower slowest slow_down decelerate
loud noisy louder | quiet silent quieter
bright light lighter | dark dim darker
white | black
clean | dirty filthy
full | empty
fill | empty drain
rich wealthy richer richest | poor poorer poorest
expensive costly pricey dear | cheap inexpensive affordable
paid charged | free
good better best great excellent | bad worse worst poor terrible
improve enhance upgrade | worsen degrade downgrade deteriorate
advantage advantages benefit benefits pro pros strength strengths upside | disadvantage disadvantages drawback drawbacks con cons weakness weaknesses downside
positive positives | negative negatives
plus | minus
credit | debit
profit profits | loss losses
asset assets | liability liabilities
income revenue revenues | expense expenses expenditure spending
supply | demand
buyer buyers customer | seller sellers vendor
lender lenders creditor | borrower borrowers debtor
landlord landlords | tenant tenants
employer employers | employee employees
teacher teachers | student students pupil pupils
doctor doctors | patient patients
sender senders | receiver recipient receivers recipients
love adore | hate dislike detest
friend friends friendly ally | enemy enemies hostile foe
happy glad cheerful | sad unhappy miserable
safe safely secure harmless | unsafe dangerous insecure harmful risky hazardous
healthy | unhealthy sick ill
alive live living | dead deceased
birth born | death die died
survive | die perish
win won winner winners | lose lost loser losers
winning | losing
beat defeat | lost_to
succeed success successful successfully pass | fail failure failed unsuccessful
true truth | false falsehood
correct right accurate | incorrect wrong inaccurate
valid | invalid
legal lawful legally legitimate | illegal unlawful illegally illegitimate
possible able | impossible unable
necessary required mandatory compulsory obligatory | unnecessary optional voluntary
require | exempt
guilty | innocent
present attend attendance | absent absence miss
visible | invisible hidden
public | private
online | offline
connected | disconnected
wired | wireless
manual manually | automatic automated automatically
static | dynamic
synchronous sync | asynchronous async
mutable | immutable
active | inactive passive dormant
temporary temporarily | permanent permanently
regular normal usual ordinary | irregular abnormal unusual special
common | rare uncommon
natural | artificial synthetic
raw uncooked | cooked
fresh | stale rotten
sweet | sour bitter
male man men boy boys husband father son brother uncle | female woman women girl girls wife mother daughter sister aunt
married marry | single unmarried divorced divorce
single | double multiple
singular | plural
odd | even
major majority | minor minority
more most | less least fewer fewest
many much lots | few little
at_least minimum | at_most maximum
more_than over above exceed | less_than under below
including | excluding
with | without
all every everyone everybody everything always | none nobody nothing never no_one
both | either neither
same identical equal alike | different distinct unequal unlike
similarities similarity | differences difference
together | apart separately separate
combine merge unite join | split separate divide
attract | repel
absorb | emit release
inhale breathe_in | exhale breathe_out
expand | collapse
remember recall memorize | forget forgot forgotten
find found discover | lose lost
teach taught | learn learned learnt
sit | stand
sleep asleep | wake awake
day daytime | night nighttime
morning | evening
summer | winter
sunrise | sunset
attack offense offence offensive | defend defense defence defensive
war | peace
victory | defeat
expire expired | renew renewed
innovative progressive | conservative traditional
optimistic | pessimistic
polite | rude impolite
honest | dishonest
patient | impatient
mature | immature
formal | informal casual
direct | indirect
domestic national | foreign international
urban city | rural countryside
rough coarse | smooth fine
sharp | blunt dull
tight | loose
tighten | loosen
straight | curved bent crooked
vegan vegetarian | carnivorous meat
solid | liquid
gas | liquid
acid acidic | alkaline base
parent parents | child children
ancestor | descendant
senior | junior
master primary | slave secondary replica
client clients | server servers
encoder | decoder
producer producers | consumer consumers
numerator | denominator
multiply | divide
addition | subtraction
inflate inflation | deflate deflation
refundable | nonrefundable
reversible | irreversible
rotate_left clockwise | rotate_right anticlockwise counterclockwise
uppercase | lowercase
prefix | suffix
head | tail
superclass | subclass
encourage promote support favor favour | discourage hinder oppose suppress
praise | criticize criticise blame
trust believe | distrust doubt disbelieve
retreat | advance
rise rising rose risen | fall falling fell fallen
appear | disappear vanish
obey comply | disobey violate breach
respect | disrespect
qualify eligible | disqualify ineligible
employed | unemployed
sufficient enough adequate | insufficient inadequate lacking
reliable | unreliable
stable | unstable volatile
relevant | irrelevant
rational | irrational
responsible | irresponsible
perfect | imperfect
conscious | unconscious
fair | unfair
lucky | unlucky
tidy | messy untidy
busy | idle free
awake | asleep
asymmetric | symmetric
cause | cure treat prevent relieve stop
in_stock | out_of_stock
"""
