// The one entry: each module is loaded once, under whatever name production gives to this file.
import "./clock.js";
import "./live.js";
import "./keys.js";
import "./copy.js";
import "./once.js";
import "./tabs.js";
import "./deciding.js";
