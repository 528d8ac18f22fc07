/* main.c: the command line. Prints one line of JSON, so that a program can read it, or a story. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cast.h"

static const char usage[] =
    "usage: checker list\n"
    "       checker all SCENARIO [states=N] [seconds=S] [OPTION=VALUE ...]\n"
    "       checker random SCENARIO [runs=N] [seconds=S] [seed=N] [OPTION=VALUE ...]\n"
    "       checker story SCENARIO SCHEDULE [everything=1] [OPTION=VALUE ...]\n"
    "options: model=sc|tso|relaxed fault=truncate|poison crashes= copies= ticks= lates= fine= grows=\n"
    "         buffer= preemptions= patience= property=\n"
    "         reduction=0\n";

static struct limits limits = {.states = 4000000, .seconds = 60, .seed = 1};

static bool set_option(struct scenario *s, const char *name, const char *value)
{
    struct options *o = &s->options;
    int number = atoi(value);
    if (!strcmp(name, "model"))
        o->model = !strcmp(value, "tso") ? MODEL_TSO : !strcmp(value, "relaxed") ? MODEL_RELAXED
                                                                                 : MODEL_SC;
    else if (!strcmp(name, "fault"))
        o->fault = !strcmp(value, "poison") ? FAULT_POISON : FAULT_TRUNCATE;
    else if (!strcmp(name, "crashes"))
        o->budget.crashes = (uint8_t)number;
    else if (!strcmp(name, "copies"))
        o->budget.copies = (uint8_t)number;
    else if (!strcmp(name, "ticks"))
        o->budget.ticks = (uint8_t)number;
    else if (!strcmp(name, "lates"))
        o->budget.lates = (uint8_t)number;
    else if (!strcmp(name, "fine"))
        o->fine = number;
    else if (!strcmp(name, "grows"))
        o->grows = number;
    else if (!strcmp(name, "buffer"))
        o->buffer = number < BUFFER_MAX ? number : BUFFER_MAX;
    else if (!strcmp(name, "preemptions"))
        o->preemptions = number;
    else if (!strcmp(name, "patience"))
        o->patience = number;
    else if (!strcmp(name, "states") || !strcmp(name, "runs"))
        limits.states = strtoull(value, NULL, 10);
    else if (!strcmp(name, "seconds"))
        limits.seconds = atof(value);
    else if (!strcmp(name, "seed"))
        limits.seed = strtoull(value, NULL, 10);
    else if (!strcmp(name, "reduction"))
        exposed = !number;
    else if (!strcmp(name, "property"))
        wanted = value;
    else if (!strcmp(name, "everything"))
        telling_all = number;
    else
        return false;
    return true;
}

static void read_options(struct scenario *s, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        char name[32];
        const char *equals = strchr(argv[i], '=');
        size_t bytes = equals ? (size_t)(equals - argv[i]) : sizeof name;
        if (bytes < sizeof name) {
            memcpy(name, argv[i], bytes);
            name[bytes] = 0;
        }
        if (bytes >= sizeof name || !set_option(s, name, equals + 1)) {
            fprintf(stderr, "%s: what is that?\n%s", argv[i], usage);
            exit(2);
        }
    }
}

/* The command that tells the schedule again, with the options that make it mean the same. */
static void print_replay(char *out, size_t size, const char *schedule, int argc, char **argv)
{
    size_t at = (size_t)snprintf(out, size, "tests/interleave/checker story %s %s", scenario->name,
                                 schedule);
    for (int i = 0; i < argc; i++)
        if (at < size && strncmp(argv[i], "seconds=", 8) && strncmp(argv[i], "states=", 7) &&
            strncmp(argv[i], "runs=", 5) && strncmp(argv[i], "seed=", 5))
            at += (size_t)snprintf(out + at, size - at, " %s", argv[i]);
}

static void print_result(const struct result *r, int argc, char **argv)
{
    char schedule[8192] = "", replay[9000] = "";
    const char *broken = r->violated ? r->violation : "";
    if (r->violated && (r->told || trail_expose())) {
        trail_shorten();
        broken = violation;
        trail_print(schedule, sizeof schedule);
        print_replay(replay, sizeof replay, schedule, argc, argv);
    }
    printf("{\"scenario\": \"%s\", \"held\": %s, \"exhausted\": %s, \"states\": %llu, "
           "\"choices\": %llu, \"executions\": %llu, \"steps\": %llu, \"longest\": %llu, "
           "\"restarts\": %d, \"seconds\": %.2f, \"stopped_by\": \"%s\", \"violation\": \"%s\", "
           "\"schedule\": \"%s\", \"replay\": \"%s\", \"outcomes\": %llu, "
           "\"outcome\": \"%016llx%016llx\"}\n",
           scenario->name, r->violated ? "false" : "true", r->exhausted ? "true" : "false",
           (unsigned long long)r->states, (unsigned long long)r->transitions,
           (unsigned long long)r->executions, (unsigned long long)r->steps,
           (unsigned long long)r->longest, r->restarts, r->seconds,
           r->stopped_by ? r->stopped_by : "", broken, schedule, replay,
           (unsigned long long)r->outcomes, (unsigned long long)r->outcome.a,
           (unsigned long long)r->outcome.b);
}

/* Told the second time: then it is known which words are shared, and the others are left out. */
static int story(const char *schedule)
{
    mode = SEARCH_REPLAY;
    exposed = true;
    if (!trail_parse(schedule)) {
        fprintf(stderr, "not a schedule: %s\n", schedule);
        return 2;
    }
    run_once();
    telling = true;
    tell_heading();
    bool held = run_once();
    printf("%s\n", held ? "all properties hold" : violation);
    return held ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc >= 2 && !strcmp(argv[1], "list")) {
        scenarios_list();
        return 0;
    }
    const struct scenario *found = argc >= 3 ? scenario_find(argv[2]) : NULL;
    if (!found) {
        fprintf(stderr, "%s", usage);
        return 2;
    }
    static struct scenario chosen;
    chosen = *found;
    bool is_story = !strcmp(argv[1], "story"), is_random = !strcmp(argv[1], "random");
    if (is_story && argc < 4)
        return 2;
    if (is_random)
        limits.states = 0;
    read_options(&chosen, argc - 3 - is_story, argv + 3 + is_story);
    world_make();
    set_up(&chosen);
    if (is_story)
        return story(argv[3]);
    struct result result;
    (is_random ? search_random : search_all)(&limits, &result);
    print_result(&result, argc - 3, argv + 3);
    return result.violated ? 1 : 0;
}
