"""Names and symbols of coins: put together from word lists, not repeated for a long time."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Final

_FIRST: Final = """
Angry Atomic Baby Bald Based Blind Brave Broke Bubble Burnt Captain Cheap Chubby Clumsy
Cosmic Crispy Crypto Cursed Dancing Degen Diamond Disco Dizzy Doctor Drunk Dusty Electric
Emperor Evil Fancy Fat Flying Frozen Funky Fuzzy Galactic Giga Golden Grumpy Happy Hairy
Haunted Holy Hungry Hyper Infinite Invisible Jazzy Jumbo King Laser Lazy Little Lonely Loud
Lucky Mad Magic Mecha Mega Melting Mighty Mini Moody Moon Naked Neon Ninja Noble Nervous Old
Pixel Plastic Poor Professor Purple Quantum Queen Quiet Rabid Radical Rainbow Retired Rich
Robo Royal Rusty Sad Salty Savage Secret Shiny Silent Silly Sleepy Slow Smug Solar Space
Spicy Stoned Super Sweaty Tiny Toxic Turbo Tired Uncle Vegan Vintage Viral Wet Wild Wise
Wobbly Wonky Zen Zombie
"""
_SECOND: Final = """
Alpaca Anchovy Ape Armadillo Avocado Axolotl Badger Bagel Banana Barista Bat Beaver Bison
Blobfish Boomer Broccoli Burrito Cactus Camel Capybara Cat Cheese Chicken Clown Cobra Corgi
Cow Crab Cricket Croissant Crow Cucumber Dachshund Dentist Dingo Dodo Dog Dolphin Donkey
Donut Dragon Duck Dumpling Eagle Eel Elephant Falcon Ferret Fish Flamingo Fridge Frog Gecko
Ghost Giraffe Goat Goblin Goose Gopher Gorilla Grandma Hamster Hedgehog Hippo Horse Husky
Iguana Intern Jaguar Janitor Kangaroo Kebab Koala Kraken Lemur Lizard Llama Lobster Mango
Mantis Meerkat Mole Monkey Moose Mosquito Mouse Muffin Narwhal Newt Noodle Octopus Onion
Ostrich Otter Owl Panda Pancake Parrot Peanut Pelican Penguin Pickle Pigeon Pirate Platypus
Plumber Poodle Possum Potato Puffin Pug Quokka Rabbit Raccoon Rat Raven Robot Salmon
Sandwich Seal Shark Sheep Shiba Shrimp Skunk Sloth Snail Snake Sock Spatula Spider Squid
Squirrel Stapler Stork Sushi Taco Tapir Tiger Toad Toaster Tofu Tortoise Toucan Trout Tuna
Turnip Turtle Vampire Viking Vulture Waffle Wallaby Walrus Wasp Weasel Whale Wizard Wolf
Wombat Worm Yak Yeti Zebra
"""
_LAST: Final = """
AI ArmyBall Cash Club Coin DAO Finance Games Inu Max Money Pay Protocol Verse
"""
NOT_REPEATED: Final = 4_000  # names after which one may come again
_LONGEST_SYMBOL: Final = 8


class Names:
    """Draws names that differ from the latest `NOT_REPEATED` ones; so do the symbols."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._order: deque[tuple[str, str]] = deque()
        self._names: set[str] = set()
        self._symbols: set[str] = set()
        self._first, self._second, self._last = (
            tuple(words.split()) for words in (_FIRST, _SECOND, _LAST)
        )

    def draw(self) -> tuple[str, str]:
        """Return a name and its symbol."""
        while True:
            name = self._name()
            symbol = self._symbol(name)
            if name not in self._names and symbol not in self._symbols:
                break
        self._order.append((name, symbol))
        self._names.add(name)
        self._symbols.add(symbol)
        if len(self._order) > NOT_REPEATED:
            oldest, oldest_symbol = self._order.popleft()
            self._names.discard(oldest)
            self._symbols.discard(oldest_symbol)
        return name, symbol

    def _name(self) -> str:
        choose, roll = self._random.choice, self._random.random()
        first, second, last = self._first, self._second, self._last
        if roll < 0.6:
            return f"{choose(first)} {choose(second)}"
        if roll < 0.8:
            return f"{choose(second)} {choose(last)}"
        if roll < 0.9:
            return f"{choose(first)} {choose(second)} {choose(last)}"
        return f"{choose(second)} {choose(second)}"

    def _symbol(self, name: str) -> str:
        words = name.upper().split()
        roll = self._random.random()
        if roll < 0.3:
            symbol = words[0] if name.split()[-1] in self._last else words[-1]
        elif roll < 0.6:
            symbol = words[0][:3] + words[1][:4]
        elif roll < 0.8:
            symbol = words[0][:1] + words[1]
        else:
            symbol = "".join(word[: self._random.randrange(2, 5)] for word in words)
        return symbol[:_LONGEST_SYMBOL]
